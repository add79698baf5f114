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
#include "engine/run/session.h"
#include "proto/text_loader.h"
#include "tools/cli/command.h"
#include "tools/cli/flags.h"
#include "tools/cli/json.h"

namespace snug::cli {
namespace {

struct StepFlags {
  int64_t batch = 0, steps = 10, seed = 0, threads = 0;
  std::string precision = "float32";
  bool json = false, profile = false, plain_kernels = false, gradient_norm = false;
  std::vector<std::string> disabled_passes;
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
  for (int64_t i = 0; i < flags.steps; ++i) {
    if (flags.profile && i == 1) profiler = std::make_unique<Profiler>(session, OpRegistry::Builtin());
    if (profiler != nullptr) profiler->BeginStep();
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
  json.Key("threads").Number(flags.threads).Key("precision").String(flags.precision).Key("seed").Number(flags.seed);
  const auto list = [&json](absl::string_view key, const std::vector<double>& values) {
    json.Key(key).Array();
    for (const double value : values) json.Number(value);
    json.End();
  };
  list("losses", measured.losses);
  if (flags.gradient_norm) list("gradient_norms", measured.norms);
  list("seconds", measured.seconds);
  json.Key("parameters").Number(summary.parameters).Key("activation_bytes").Number(summary.activation_bytes);
  json.Key("state_bytes").Number(session.state_bytes()).Key("step_bytes").Number(session.step_bytes()).End();
  std::puts(json.text().c_str());
}

}  // namespace

absl::StatusOr<int> RunStep(const Arguments& arguments) {
  StepFlags f;
  Flags flags("snug step NET [flags]",
              "Trains some steps on seeded random data (one batch, used again) and prints the loss and time of each.");
  flags.Add("batch", &f.batch, "samples in a step; default: the model file's, or 1", 1);
  flags.Add("steps", &f.steps, "how many; default 10", 1);
  flags.Add("seed", &f.seed, "of parameters, data and dropout; default 0");
  flags.Add("threads", &f.threads, "threads of each op; default: every processor", 1);
  flags.Add("precision", &f.precision, "float32 (default), bfloat16 (with float32 parameters) or float64");
  flags.Add("gradient-norm", &f.gradient_norm, "also print the global norm of the gradients (with --json)");
  flags.Add("disable-passes", &f.disabled_passes, "compiler passes to leave out, by name");
  flags.Add("plain-kernels", &f.plain_kernels, "run the reference kernels, which are slow");
  flags.Add("profile", &f.profile, "print time per op and per node; the first step is left out");
  flags.Add("json", &f.json, "print one JSON document");
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  if (f.threads == 0) f.threads = DefaultThreads();
  SNUG_ASSIGN_OR_RETURN(const DType precision, ParsePrecision(f.precision));

  const OpRegistry& registry = OpRegistry::Builtin();
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkFile(file));
  CompileOptions options{.batch = f.batch,
                         .precision = precision,
                         .threads = static_cast<int>(f.threads),
                         .plain_kernels = f.plain_kernels,
                         .gradient_norm = f.gradient_norm};
  options.disabled_passes.insert(f.disabled_passes.begin(), f.disabled_passes.end());
  GraphSummary summary;
  options.observer = [&](absl::string_view stage, const Graph& graph) {
    if (stage < "70") summary = Summarize(graph, registry);  // the last stage before layouts of libraries come in
  };
  SNUG_ASSIGN_OR_RETURN(Compiled compiled, Compile(loaded.network, loaded.source_map, registry, options));
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                        Session::Create(std::move(compiled), {.seed = static_cast<uint64_t>(f.seed)}));
  SNUG_RETURN_IF_ERROR(FeedRandom(*session, registry, static_cast<uint64_t>(f.seed)));
  SNUG_ASSIGN_OR_RETURN(const Measured measured, Measure(*session, loaded.network, f));
  if (f.json) {
    PrintJson(*session, loaded.network, f, summary, measured);
  } else {
    absl::PrintF("parameters %d, activations %d bytes, state arena %d bytes, step arena %d bytes\n", summary.parameters,
                 summary.activation_bytes, session->state_bytes(), session->step_bytes());
  }
  return 0;
}

}  // namespace snug::cli
