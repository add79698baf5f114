#include "engine/run/observe/tuner.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "engine/base/has_cuda.h"
#include "engine/base/status.h"
#include "engine/compile/passes/pass.h"
#if SNUG_HAS_CUDA
#include "engine/cuda/cuda_device.h"
#endif
#include "engine/graph/graph.h"
#include "engine/run/observe/step_timer.h"

namespace snug::core {
namespace {

// A smaller gain than this may be chance, and is not taken.
constexpr double kStepGain = 0.02, kKernelGain = 0.05;
constexpr int kLeastSteps = 5;
constexpr int kComparedSteps = 2;  // the second step uses Variables that the first one changed

// Returns everything that the first steps put out.
absl::StatusOr<std::vector<double>> FirstOutputs(StepTimer& timer) {
  std::vector<double> all;
  for (int i = 0; i < kComparedSteps; ++i) {
    SNUG_RETURN_IF_ERROR(timer.Step(/*warm_up=*/true));
    for (const Endpoint& output : timer.session().compiled().executable.outputs) {
      SNUG_ASSIGN_OR_RETURN(const std::vector<double> values, timer.session().Fetch(output.name));
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

// Tells whether whole steps agree up to rounding. Each difference is compared with the largest number.
bool Agree(const std::vector<double>& a, const std::vector<double>& b, DType precision) {
  const double tolerance = precision == DType::kBFloat16 ? 0.1 : 0.01;
  if (a.size() != b.size()) return false;
  double largest = 0, distance = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i]));
    if (!std::isfinite(b[i])) return false;
    distance = std::max(distance, std::abs(a[i] - b[i]));
  }
  return distance <= tolerance * largest;
}

class Tuner {
 public:
  Tuner(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
        const TuneOptions& options)
      : network_(network), locations_(locations), registry_(registry), options_(options), best_(options.compile) {}

  absl::StatusOr<TuneReport> Run() {
    best_.tuning = nullptr;
    SNUG_ASSIGN_OR_RETURN(best_timer_, Timer(best_));
    for (const int threads : options_.threads) {
      if (threads == options_.compile.threads) continue;
      CompileOptions other = best_;
      other.threads = threads;
      SNUG_RETURN_IF_ERROR(Challenge(absl::StrCat(threads, " threads an op"), other));
    }
    const bool on_cpu = options_.compile.device.kind == Device::Kind::kCpu;
    std::vector<absl::Span<const Pass>> lists = {ForwardPasses(), WholePasses(),
                                                 on_cpu ? LastProcessorPasses() : CudaPasses()};
    if (options_.compile.keep_derived) lists.insert(lists.end(), {KeepingPasses(), LastKeepingPasses()});
    for (const absl::Span<const Pass> passes : lists) {
      for (const Pass& pass : passes) {
        CompileOptions other = best_;
        if (!other.disabled_passes.insert(std::string(pass.name)).second) continue;
        SNUG_RETURN_IF_ERROR(Challenge(absl::StrCat("without ", pass.name), other));
      }
    }
    best_timer_ = nullptr;  // a device may have no room for two
    SNUG_RETURN_IF_ERROR(MeasureKernels());
    CompileOptions tuned = best_;
    tuned.tuning = std::make_shared<const Tuning>(ChooseKernels());
    if (!tuned.tuning->kernels.empty()) {
      const absl::Status agree = Milliseconds(tuned).status();  // the chosen kernels must agree together, too
      if (!agree.ok() && !IsTheirs(agree)) return agree;
      SNUG_ASSIGN_OR_RETURN(best_timer_, Timer(best_));
      if (agree.ok()) SNUG_RETURN_IF_ERROR(Challenge("chosen kernels", tuned));
    }
    SNUG_RETURN_IF_ERROR(Confirm());
    return std::move(report_);
  }

 private:
  absl::StatusOr<Compiled> CompileWith(const CompileOptions& options) const {
    return Compile(network_, locations_, registry_, options);
  }

  absl::StatusOr<std::unique_ptr<StepTimer>> Timer(const CompileOptions& options) const {
    SNUG_ASSIGN_OR_RETURN(Compiled compiled, CompileWith(options));
    return StepTimer::Create(std::move(compiled), registry_, options_.session);
  }

  void Say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }

  absl::StatusOr<Platform> PlatformHere() const {
#if SNUG_HAS_CUDA
    if (options_.session.cuda_device != nullptr) return CudaPlatform(options_.session.cuda_device->info());
#endif
    return PlatformOf(options_.compile.device);
  }

  // Steps by `other` become the best ones if they are faster when both run in turn.
  absl::Status Challenge(const std::string& what, const CompileOptions& other) {
    absl::StatusOr<Compiled> compiled = CompileWith(other);
    if (absl::IsResourceExhausted(compiled.status())) return absl::OkStatus();  // the plan is over the memory limit
    SNUG_RETURN_IF_ERROR(compiled.status());
    const Compiled& best = best_timer_->session().compiled();
    if (other.threads == best.threads && other.tuning == best_.tuning &&
        ToText(compiled->graph) == ToText(best.graph)) {
      return absl::OkStatus();  // the option changes nothing
    }
    absl::StatusOr<std::unique_ptr<StepTimer>> made =
        StepTimer::Create(*std::move(compiled), registry_, options_.session);
    if (absl::IsResourceExhausted(made.status())) {
      Say(absl::StrCat(what, ": no room for it beside the other"));
      return absl::OkStatus();
    }
    SNUG_RETURN_IF_ERROR(made.status());
    std::unique_ptr<StepTimer> timer = *std::move(made);
    best_timer_->Clear();
    SNUG_RETURN_IF_ERROR(StepInTurn({best_timer_.get(), timer.get()}, options_.seconds, kLeastSteps));
    TuneReport::Trial trial{
        .what = what, .best_ms = best_timer_->MedianSeconds() * 1e3, .ms = timer->MedianSeconds() * 1e3};
    trial.taken = trial.ms < trial.best_ms * (1 - kStepGain);
    Say(absl::StrFormat("%-32s %10.3f ms, instead of %.3f%s", what, trial.ms, trial.best_ms,
                        trial.taken ? ": taken" : ""));
    if (trial.taken) {
      best_ = other;
      best_timer_ = std::move(timer);
      any_taken_ = true;
    }
    report_.trials.push_back(std::move(trial));
    return absl::OkStatus();
  }

  // Measures one round of candidates and returns the times by key, for one node each. Fails with DataLoss where they
  // compute something else.
  absl::StatusOr<std::map<std::string, double>> Milliseconds(const CompileOptions& options) {
    SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<StepTimer> timer, Timer(options));
    SNUG_ASSIGN_OR_RETURN(const std::vector<double> outputs, FirstOutputs(*timer));
    if (outputs_.empty()) outputs_ = outputs;  // the first round has the ops' own kernels
    const Compiled& c = timer->session().compiled();
    if (!Agree(outputs_, outputs, c.precision)) return absl::DataLossError("computes something else");
    timer->TimeKernels();
    StepTimer* const one[] = {timer.get()};
    SNUG_RETURN_IF_ERROR(StepInTurn(one, options_.seconds, kLeastSteps));
    const std::vector<double> seconds = timer->MedianKernelSeconds();
    std::map<std::string, double> sums;
    std::map<std::string, int> nodes;
    for (size_t i = 0; i < seconds.size(); ++i) {
      const KernelChoice* kernel = &c.kernels[static_cast<size_t>(c.executable.steps[i].node.index)];
      const bool inserted = kernel->inserted_for.valid();
      if (inserted) kernel = &c.kernels[static_cast<size_t>(kernel->inserted_for.index)];
      if (kernel->key.empty()) continue;
      sums[kernel->key] += seconds[i] * 1e3;
      nodes[kernel->key] += inserted ? 0 : 1;
    }
    for (auto& [key, ms] : sums) ms /= std::max(nodes[key], 1);
    return sums;
  }

  void FindKernels(const Compiled& compiled) {
    std::map<std::string, size_t> index;
    for (const NodeId id : compiled.graph.ProgramOrder()) {
      const KernelChoice& kernel = compiled.kernels[static_cast<size_t>(id.index)];
      if (kernel.offered.empty()) continue;
      const auto [it, is_new] = index.emplace(kernel.key, report_.kernels.size());
      if (is_new) {
        TuneReport::Kernel& added = report_.kernels.emplace_back();
        added.key = kernel.key;
        added.node = compiled.graph.node(id).name;
        added.candidates.push_back({});
        for (const std::string& choice : kernel.offered) added.candidates.push_back({choice, -1});
      }
      ++report_.kernels[it->second].nodes;
    }
  }

  absl::Status MeasureKernels() {
    CompileOptions options = best_;
    options.list_choices = true;
    SNUG_ASSIGN_OR_RETURN(const Compiled own, CompileWith(options));
    FindKernels(own);
    size_t rounds = 0;
    for (const TuneReport::Kernel& kernel : report_.kernels) rounds = std::max(rounds, kernel.candidates.size());
    for (size_t round = 0; round < rounds; ++round) {
      SNUG_RETURN_IF_ERROR(MeasureRound(round, options));
      Say(absl::StrCat("kernels, round ", round + 1, " of ", rounds));
    }
    return absl::OkStatus();
  }

  // Measures every kernel's candidate of this number, all in one program; if they do not work together, each alone.
  absl::Status MeasureRound(size_t round, const CompileOptions& options) {
    std::vector<TuneReport::Kernel*> kernels;
    for (TuneReport::Kernel& kernel : report_.kernels) {
      if (round < kernel.candidates.size()) kernels.push_back(&kernel);
    }
    absl::Status together = MeasureCandidates(kernels, round, options);
    if (together.ok() || !IsTheirs(together)) return together;
    for (TuneReport::Kernel* const kernel : kernels) {
      absl::Status alone = MeasureCandidates({kernel}, round, options);
      if (alone.ok()) continue;
      if (!IsTheirs(alone) || round == 0) return alone;
      kernel->candidates[round].problem = std::string(alone.message());
    }
    return absl::OkStatus();
  }

  // Tells whether an error is the tuning's fault: too much memory, another result, or a kernel that the library cannot
  // build after all.
  static bool IsTheirs(const absl::Status& status) {
    return absl::IsResourceExhausted(status) || absl::IsDataLoss(status) || absl::IsUnimplemented(status) ||
           absl::IsInvalidArgument(status);
  }

  absl::Status MeasureCandidates(const std::vector<TuneReport::Kernel*>& kernels, size_t round,
                                 CompileOptions options) {
    Tuning tuning;
    for (const TuneReport::Kernel* kernel : kernels) {
      tuning.kernels[kernel->key].choice = kernel->candidates[round].choice;
    }
    options.tuning = std::make_shared<const Tuning>(std::move(tuning));
    SNUG_ASSIGN_OR_RETURN(const auto ms, Milliseconds(options));
    for (TuneReport::Kernel* kernel : kernels) kernel->candidates[round].ms = ms.at(kernel->key);
    return absl::OkStatus();
  }

  Tuning ChooseKernels() {
    Tuning tuning;
    for (TuneReport::Kernel& kernel : report_.kernels) {
      const TuneReport::Candidate& own = kernel.candidates[0];
      double least = own.ms * (1 - kKernelGain);
      for (size_t i = 1; i < kernel.candidates.size(); ++i) {
        const double ms = kernel.candidates[i].ms;
        if (ms < 0 || ms >= least) continue;
        least = ms;
        kernel.chosen = i;
      }
      if (kernel.chosen == 0) continue;
      const TuneReport::Candidate& chosen = kernel.candidates[kernel.chosen];
      tuning.kernels[kernel.key] = {chosen.choice, chosen.ms, own.ms};
    }
    return tuning;
  }

  // Compares the best steps with steps without tuning once more. If nothing was taken, they are the same.
  absl::Status Confirm() {
    best_timer_ = nullptr;
    SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<StepTimer> untuned, Timer(options_.compile));
    std::vector<StepTimer*> timers = {untuned.get()};
    if (any_taken_) {
      SNUG_ASSIGN_OR_RETURN(best_timer_, Timer(best_));
      timers.push_back(best_timer_.get());
    }
    SNUG_RETURN_IF_ERROR(StepInTurn(timers, 2 * options_.seconds, 2 * kLeastSteps));
    report_.before_ms = untuned->MedianSeconds() * 1e3;
    report_.after_ms = timers.back()->MedianSeconds() * 1e3;
    report_.faster = report_.after_ms < report_.before_ms * (1 - kStepGain);
    const CompileOptions& taken = report_.faster ? best_ : options_.compile;
    Tuning& tuning = report_.tuning;
    if (taken.tuning != nullptr) {
      tuning.kernels = taken.tuning->kernels;
    } else {
      for (TuneReport::Kernel& kernel : report_.kernels) kernel.chosen = 0;  // together they were not faster
    }
    SNUG_ASSIGN_OR_RETURN(tuning.platform, PlatformHere());
    tuning.threads = taken.threads;
    tuning.disabled_passes = taken.disabled_passes;
    tuning.network = untuned->session().compiled().graph.name;
    tuning.batch = untuned->session().compiled().batch;
    tuning.step_ms = report_.before_ms;
    tuning.tuned_step_ms = report_.faster ? report_.after_ms : report_.before_ms;
    return absl::OkStatus();
  }

  const proto::Network& network_;
  const SourceMap& locations_;
  const OpRegistry& registry_;
  const TuneOptions& options_;
  CompileOptions best_;
  std::unique_ptr<StepTimer> best_timer_;
  bool any_taken_ = false;
  std::vector<double> outputs_;
  TuneReport report_;
};

}  // namespace

absl::StatusOr<TuneReport> Tune(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                                const TuneOptions& options) {
  return Tuner(network, locations, registry, options).Run();
}

}  // namespace snug::core
