// `snug step NET` runs steps on seeded random data, in training or forward only.
#include <absl/algorithm/container.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "engine/base/machine.h"
#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/compile/pipeline.h"
#include "engine/compile/unread_parameters.h"
#include "engine/run/session/random_feed.h"
#include "engine/run/session/saved_inputs.h"
#include "engine/run/session/session.h"
#include "proto/text_loader.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/compile_flags.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/memory_flags.h"
#include "tools/cli/flags/optimizer_flags.h"
#include "tools/cli/flags/output_flag.h"
#include "tools/cli/flags/run_flags.h"
#include "tools/cli/step_observer.h"

namespace snug::core::cli {
namespace {

struct StepFlags {
  int64_t steps = 10, seed = 0;
  bool forward = false, json = false, gradient_norm = false, poison = false;
  RunFlags run;
  ObserverFlags observer;
  CompileFlags compile;
  MemoryFlags memory;
};

struct Measured {
  std::vector<double> losses, norms, seconds;
  int64_t heap_growth = 0;  // the most that the heap grew while steps ran
};

// Tells whether only libraries may take heap while steps run. Engines that follow a plan take none, unless they record
// what runs; the first step keeps what was fed while it makes what is derived.
bool OnlyLibrariesTakeHeap(const Session& session, const SessionOptions& options) {
  return session.compiled().derivation == nullptr && !session.compiled().executable.memory.dynamic.has_value() &&
         session.engine() != ExecutorKind::kDynamic && !options.check_access && options.watchdog.seconds == 0;
}

// Tells whether steps compute all objectives, and there are any.
bool HasLoss(const proto::Network& network, const CompileFlags& flags) {
  return !network.objective().empty() && absl::c_all_of(network.objective(), [&](const std::string& objective) {
    return flags.only.empty() || absl::c_linear_search(flags.only, objective);
  });
}

// Returns the sum of the objectives, which training minimises.
absl::StatusOr<double> Loss(Session& session, const proto::Network& network) {
  double loss = 0;
  for (const std::string& objective : network.objective()) {
    SNUG_ASSIGN_OR_RETURN(const std::vector<double> values, session.Fetch(objective));
    for (const double value : values) loss += value;
  }
  return loss;
}

absl::StatusOr<Measured> Measure(Session& session, const proto::Network& network, const StepFlags& flags,
                                 StepObserver& observer) {
  Measured measured;
  const bool has_loss = HasLoss(network, flags.compile);
  SavedInputs inputs(session);
  int64_t grown = 0;
  for (int64_t i = 0; i < flags.steps; ++i) {
    StepObserver::Moments at{.feed = MonotonicNanoseconds()};
    inputs.Feed();
    const int64_t heap = HeapBytes();
    at.run = MonotonicNanoseconds();
    SNUG_RETURN_IF_ERROR(session.Run());
    at.fetch = MonotonicNanoseconds();
    grown += HeapBytes() - heap;
    measured.heap_growth = std::max(measured.heap_growth, grown);
    measured.seconds.push_back(static_cast<double>(at.fetch - at.run) * 1e-9);
    if (has_loss) {
      SNUG_ASSIGN_OR_RETURN(const double loss, Loss(session, network));
      measured.losses.push_back(loss);
    }
    if (flags.gradient_norm) {
      SNUG_ASSIGN_OR_RETURN(const double norm, session.FetchScalar("gradient_norm"));
      measured.norms.push_back(norm);
    }
    at.end = MonotonicNanoseconds();
    observer.AddStep(at);
    if (!flags.json) {
      absl::PrintF("step %3d  ", i);
      if (has_loss) absl::PrintF("loss %-12.6g ", measured.losses.back());
      absl::PrintF("%10.3f ms\n", measured.seconds.back() * 1e3);
      std::fflush(stdout);
    }
  }
  return measured;
}

void PrintJson(const Session& session, const proto::Network& network, const StepFlags& flags,
               const SessionOptions& options, const Measured& measured, const StepObserver& observer) {
  Json json;
  json.Object().Key("network").String(network.name()).Key("batch").Number(session.compiled().batch);
  json.Key("threads")
      .Number(static_cast<int64_t>(session.compiled().threads))
      .Key("streams")
      .Number(static_cast<int64_t>(session.compiled().executable.schedule.count()))
      .Key("engine")
      .String(ExecutorName(session.engine()))
      .Key("precision")
      .String(Name(session.compiled().precision))
      .Key("seed")
      .Number(flags.seed);
  const auto list = [&json](absl::string_view key, const std::vector<double>& values) {
    json.Key(key).Array();
    for (const double value : values) json.Number(value);
    json.End();
  };
  if (!measured.losses.empty()) list("losses", measured.losses);
  if (flags.gradient_norm) list("gradient_norms", measured.norms);
  list("seconds", measured.seconds);
  const GraphSummary& summary = session.compiled().summary;
  json.Key("parameters").Number(summary.parameters).Key("activation_bytes").Number(summary.activation_bytes);
  const MemoryPlan& plan = session.compiled().executable.memory;
  json.Key("memory").String(plan.strategy).Key("planned_bytes").Number(session.compiled().planned_bytes());
  json.Key("measured_bytes").Number(session.state_bytes() + session.step_bytes());
  json.Key("state_bytes").Number(session.state_bytes()).Key("step_bytes").Number(session.step_bytes());
  if (OnlyLibrariesTakeHeap(session, options)) json.Key("library_bytes").Number(measured.heap_growth);
  if (plan.dynamic.has_value()) {
    const memory::AllocatorStatistics allocator = session.dynamic_statistics();
    json.Key("allocator").String(plan.dynamic->options.allocator.allocator);
    json.Key("predicted_used_bytes").Number(plan.dynamic->predicted.peak_used_bytes);
    json.Key("used_bytes").Number(allocator.peak_used_bytes).Key("fragmentation").Number(allocator.Fragmentation());
    json.Key("system_allocations").Number(allocator.system_allocations);
  }
  WriteKernels(session.compiled(), json);
  WriteFallbacks(session.fallbacks(), json);
  observer.WriteJson(json);
  json.End();
  std::puts(json.text().c_str());
}

}  // namespace

absl::StatusOr<int> RunStep(const Arguments& arguments) {
  StepFlags f;
  Flags flags(
      "snug step NET [flags]",
      "Trains some steps on seeded random data (one batch, used again) and prints the loss and time of each; with\n"
      "--forward they are forward passes.");
  flags.Add("steps", &f.steps, "how many; default 10", 1);
  flags.Add(
      "forward", &f.forward,
      "the forward pass alone, without flags of the optimizer; what other flags of training ask for is said to change "
      "nothing; default: training steps");
  f.compile.AddKeepDerivedTo(flags);
  f.compile.AddOnlyTo(flags);
  flags.Add("seed", &f.seed, "of parameters, data and dropout; default 0");
  f.compile.AddTo(flags);
  f.memory.AddTo(flags);
  f.run.AddTo(flags);
  flags.Add("gradient-norm", &f.gradient_norm, "also print the global norm of the gradients (with --json)");
  flags.Add("poison", &f.poison,
            "debugging: bytes are overwritten as soon as nothing needs them; takes the serial engine");
  f.observer.AddTo(flags);
  AddJsonFlag(flags, &f.json);
  OptimizerFlags optimizer;
  optimizer.AddTo(flags);
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  SNUG_RETURN_IF_ERROR(f.compile.CheckForwardOnly(f.forward));
  SNUG_RETURN_IF_ERROR(optimizer.CheckForwardOnly(f.forward));
  if (f.forward && f.gradient_norm) {
    return absl::InvalidArgumentError("--gradient-norm: is for training, expected no --forward beside it");
  }
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkFile(file));
  SNUG_ASSIGN_OR_RETURN(CompileOptions options, f.compile.Options(f.memory.streams.count));
  SNUG_ASSIGN_OR_RETURN(options.memory, f.memory.Options({&loaded}));
  SNUG_RETURN_IF_ERROR(optimizer.SetIn(loaded, &options));
  options.training = !f.forward;
  options.gradient_norm = f.gradient_norm;
  const bool dynamic_memory = options.memory.strategy == kDynamicMemory;
  SNUG_ASSIGN_OR_RETURN(SessionOptions session_options, f.run.Options(f.compile.threads > 0, &options));
  session_options.seed = static_cast<uint64_t>(f.seed);
  session_options.poison = f.poison;
  SNUG_RETURN_IF_ERROR(CheckNotRead("trace", f.observer.trace, {file, f.memory.plan_file, f.compile.tuning}));
  SNUG_ASSIGN_OR_RETURN(StepObserver observer, StepObserver::Create(f.observer));

  const OpRegistry& registry = OpRegistry::Builtin();
  SNUG_ASSIGN_OR_RETURN(Compiled compiled, Compile(loaded.network, loaded.source_map, registry, options));
  SayWhatVaries(compiled);
  std::fputs(InVainText(compiled).c_str(), stderr);
  std::fputs(UnreadParametersText(compiled).c_str(), stderr);
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(std::move(compiled), session_options));
  SNUG_RETURN_IF_ERROR(FeedRandom(*session, registry, static_cast<uint64_t>(f.seed)));
  SNUG_RETURN_IF_ERROR(observer.Attach(*session, registry, f.steps));
  const absl::StatusOr<Measured> measured = Measure(*session, loaded.network, f, observer);
  const absl::Status finished = observer.Finish();  // also for a run that failed, because the steps before it count
  SNUG_RETURN_IF_ERROR(measured.status());
  SNUG_RETURN_IF_ERROR(finished);
  if (f.json) {
    PrintJson(*session, loaded.network, f, session_options, *measured, observer);
  } else {
    const MemoryPlan& plan = session->compiled().executable.memory;
    const GraphSummary& summary = session->compiled().summary;
    absl::PrintF("parameters %d, activations %d bytes\n", summary.parameters, summary.activation_bytes);
    absl::PrintF("memory by %s: %s %d bytes, measured %d bytes (state arena %d, %s %d)\n", plan.strategy,
                 dynamic_memory ? "predicted" : "planned", session->compiled().planned_bytes(),
                 session->state_bytes() + session->step_bytes(), session->state_bytes(),
                 dynamic_memory ? "reserved for the step" : "step arena", session->step_bytes());
    if (OnlyLibrariesTakeHeap(*session, session_options)) {
      absl::PrintF("libraries took %d bytes of heap for themselves while the steps ran\n", measured->heap_growth);
    }
    if (plan.dynamic.has_value()) {
      const memory::AllocatorStatistics allocator = session->dynamic_statistics();
      absl::PrintF(
          "allocator %s: predicted %d bytes in use, measured %d; fragmentation %.1f %%; asked the system %d times\n",
          plan.dynamic->options.allocator.allocator, plan.dynamic->predicted.peak_used_bytes, allocator.peak_used_bytes,
          100 * allocator.Fragmentation(), allocator.system_allocations);
    }
    if (observer.profiler() != nullptr) absl::PrintF("\n%s", observer.Tables());
  }
  return 0;
}

}  // namespace snug::core::cli
