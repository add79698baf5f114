// `snug step NET`: training steps on seeded random data.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "engine/base/status.h"
#include "engine/compile/pipeline.h"
#include "engine/compile/summary.h"
#include "engine/run/profiler.h"
#include "engine/run/random_feed.h"
#include "engine/run/saved_inputs.h"
#include "engine/run/session.h"
#include "proto/text_loader.h"
#include "tools/cli/command.h"
#include "tools/cli/flags.h"
#include "tools/cli/json.h"
#include "tools/cli/memory_flags.h"

namespace snug::cli {
namespace {

struct StepFlags {
  int64_t steps = 10, seed = 0;
  bool json = false, profile = false, gradient_norm = false, poison = false;
  CompileFlags compile;
  MemoryFlags memory;
};

struct Measured {
  std::vector<double> losses, norms, seconds;
};

// The sum of the objectives: what training minimises.
absl::StatusOr<double> Loss(Session& session, const proto::Network& network) {
  double loss = 0;
  for (const std::string& objective : network.objective()) {
    SNUG_ASSIGN_OR_RETURN(const std::vector<double> values, session.Fetch(objective));
    for (const double value : values) loss += value;
  }
  return loss;
}

absl::StatusOr<Measured> Measure(Session& session, const proto::Network& network, const StepFlags& flags) {
  Measured measured;
  std::unique_ptr<Profiler> profiler;
  SavedInputs inputs(session);
  for (int64_t i = 0; i < flags.steps; ++i) {
    if (flags.profile && i == 1) profiler = std::make_unique<Profiler>(session, OpRegistry::Builtin());
    if (profiler != nullptr) profiler->BeginStep();
    inputs.Feed();
    const auto begin = std::chrono::steady_clock::now();
    SNUG_RETURN_IF_ERROR(session.Run());
    measured.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    SNUG_ASSIGN_OR_RETURN(const double loss, Loss(session, network));
    measured.losses.push_back(loss);
    if (flags.gradient_norm) {
      SNUG_ASSIGN_OR_RETURN(const double norm, session.FetchScalar("gradient_norm"));
      measured.norms.push_back(norm);
    }
    if (!flags.json) {
      std::printf("step %3d  loss %-12.6g %10.3f ms\n", static_cast<int>(i), loss, measured.seconds.back() * 1e3);
      std::fflush(stdout);
    }
  }
  if (profiler != nullptr) std::fputs(profiler->Table().c_str(), flags.json ? stderr : stdout);
  return measured;
}

void PrintJson(const Session& session, const proto::Network& network, const StepFlags& flags,
               const GraphSummary& summary, const Measured& measured) {
  Json json;
  json.Object().Key("network").String(network.name()).Key("batch").Number(session.compiled().batch);
  json.Key("threads")
      .Number(static_cast<int64_t>(session.compiled().threads))
      .Key("precision")
      .String(flags.compile.precision)
      .Key("seed")
      .Number(flags.seed);
  const auto list = [&json](absl::string_view key, const std::vector<double>& values) {
    json.Key(key).Array();
    for (const double value : values) json.Number(value);
    json.End();
  };
  list("losses", measured.losses);
  if (flags.gradient_norm) list("gradient_norms", measured.norms);
  list("seconds", measured.seconds);
  json.Key("parameters").Number(summary.parameters).Key("activation_bytes").Number(summary.activation_bytes);
  const MemoryPlan& plan = session.compiled().executable.memory;
  json.Key("memory").String(plan.strategy).Key("planned_bytes").Number(plan.total_bytes());
  json.Key("measured_bytes").Number(session.state_bytes() + session.step_bytes());
  json.Key("state_bytes").Number(session.state_bytes()).Key("step_bytes").Number(session.step_bytes()).End();
  std::puts(json.text().c_str());
}

}  // namespace

absl::StatusOr<int> RunStep(const Arguments& arguments) {
  StepFlags f;
  Flags flags("snug step NET [flags]",
              "Trains some steps on seeded random data (one batch, used again) and prints the loss and time of each.");
  flags.Add("steps", &f.steps, "how many; default 10", 1);
  flags.Add("seed", &f.seed, "of parameters, data and dropout; default 0");
  f.compile.AddTo(flags);
  f.memory.AddTo(flags);
  flags.Add("gradient-norm", &f.gradient_norm, "also print the global norm of the gradients (with --json)");
  flags.Add("poison", &f.poison, "debugging: bytes are overwritten as soon as nothing needs them");
  flags.Add("profile", &f.profile, "print time per op and per node; the first step is left out");
  flags.Add("json", &f.json, "print one JSON document");
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  SNUG_ASSIGN_OR_RETURN(CompileOptions options, f.compile.Options());
  SNUG_ASSIGN_OR_RETURN(options.memory, f.memory.Options());
  options.gradient_norm = f.gradient_norm;

  const OpRegistry& registry = OpRegistry::Builtin();
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkFile(file));
  GraphSummary summary;
  options.observer = [&](absl::string_view stage, const Graph& graph) {
    if (stage < "70") summary = Summarize(graph, registry);  // the last stage before layouts of libraries come in
  };
  SNUG_ASSIGN_OR_RETURN(Compiled compiled, Compile(loaded.network, loaded.source_map, registry, options));
  SNUG_ASSIGN_OR_RETURN(
      const std::unique_ptr<Session> session,
      Session::Create(std::move(compiled), {.seed = static_cast<uint64_t>(f.seed), .poison = f.poison}));
  SNUG_RETURN_IF_ERROR(FeedRandom(*session, registry, static_cast<uint64_t>(f.seed)));
  SNUG_ASSIGN_OR_RETURN(const Measured measured, Measure(*session, loaded.network, f));
  if (f.json) {
    PrintJson(*session, loaded.network, f, summary, measured);
  } else {
    const MemoryPlan& plan = session->compiled().executable.memory;
    absl::PrintF("parameters %d, activations %d bytes\n", summary.parameters, summary.activation_bytes);
    absl::PrintF("memory by %s: planned %d bytes, measured %d bytes (state arena %d, step arena %d)\n", plan.strategy,
                 plan.total_bytes(), session->state_bytes() + session->step_bytes(), session->state_bytes(),
                 session->step_bytes());
  }
  return 0;
}

}  // namespace snug::cli
