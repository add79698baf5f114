// CBC through its C++ classes: its C interface prints to standard output whatever the log level, and tells of solutions
// only when the search is over.
#include "memory/ilp/cbc.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <chrono>
#include <coin/CbcEventHandler.hpp>
#include <coin/CbcModel.hpp>
#include <coin/CbcSolver.hpp>
#include <coin/OsiClpSolverInterface.hpp>
#include <string>

namespace snug::memory {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Silence : public CoinMessageHandler {
 public:
  int print() override { return 0; }
  CoinMessageHandler* clone() const override { return new Silence(*this); }
};

// What the copies of one Watcher share.
struct Watch {
  const IlpOptions* options = nullptr;
  Clock::time_point start;
  IlpProgress progress;
  bool out_of_time = false;
};

// Reports progress, and stops CBC when its time is over: CBC's own limit is not passed on to the searches inside its
// heuristics.
class Watcher : public CbcEventHandler {
 public:
  explicit Watcher(Watch* watch) : watch_(watch) {}
  CbcEventHandler* clone() const override { return new Watcher(*this); }

  CbcAction event(CbcEvent) override {
    const double seconds = Since(watch_->start);
    if (watch_->options->seconds > 0 && seconds > watch_->options->seconds) {
      watch_->out_of_time = true;
      return stop;
    }
    // A model with a parent is a search inside a heuristic, under further constraints: its numbers are not ours.
    if (model_ == nullptr || model_->parentModel() != nullptr) return noAction;
    IlpProgress& progress = watch_->progress;
    const double objective = model_->getObjValue();
    const double bound = model_->getBestPossibleObjValue();
    const bool better = objective < kNone && objective < progress.objective;
    const bool tighter = bound < kNone && bound > std::max(progress.bound, -kNone);
    if (!better && !tighter) return noAction;
    if (better) progress.objective = objective;
    if (tighter) progress.bound = bound;
    progress.seconds = seconds;
    if (watch_->options->on_progress) watch_->options->on_progress(progress);
    return noAction;
  }

 private:
  static constexpr double kNone = 1e49;  // CBC says 1e50 when there is nothing yet

  Watch* watch_;
};

void Load(const IlpModel& model, OsiClpSolverInterface& solver) {
  const CoinPackedMatrix matrix(false, model.variables(), model.constraints(), static_cast<CoinBigIndex>(model.terms()),
                                model.factors().data(), model.columns().data(), model.row_begin().data(), nullptr);
  const auto finite = [&](std::vector<double> bounds) {
    for (double& bound : bounds) bound = std::clamp(bound, -solver.getInfinity(), solver.getInfinity());
    return bounds;
  };
  solver.loadProblem(matrix, finite(model.lower()).data(), finite(model.upper()).data(), model.cost().data(),
                     finite(model.row_lower()).data(), finite(model.row_upper()).data());
  for (int32_t i = 0; i < model.variables(); ++i) {
    if (model.integer()[static_cast<size_t>(i)]) solver.setInteger(i);
  }
}

int OnStage(CbcModel*, int) { return 0; }

}  // namespace

absl::StatusOr<IlpResult> SolveByCbc(const IlpModel& model, const IlpOptions& options) {
  Watch watch{.options = &options, .start = Clock::now()};
  Silence silence;
  OsiClpSolverInterface relaxation;
  relaxation.passInMessageHandler(&silence);
  Load(model, relaxation);

  CbcModel cbc(relaxation);
  cbc.passInMessageHandler(&silence);
  CbcSolverUsefulData workspace;  // makes CbcMain1 free of global state
  CbcMain0(cbc, workspace);
  cbc.setLogLevel(0);
  Watcher watcher(&watch);
  cbc.passInEventHandler(&watcher);
  if (!options.start.empty()) {
    cbc.setBestSolution(options.start.data(), model.variables(), model.Objective(options.start), true);
  }

  std::vector<std::string> arguments = {"snug", "-log", "0", "-timeMode", "elapsed"};
  const auto set = [&](absl::string_view name, double value) {
    arguments.push_back(absl::StrCat("-", name));
    arguments.push_back(absl::StrCat(value));
  };
  if (options.seconds > 0) set("sec", options.seconds);
  if (options.nodes > 0) set("maxNodes", static_cast<double>(options.nodes));
  if (options.step > 0) set("increment", options.step * 0.999);
  set("ratioGap", 0);
  set("allowableGap", 0);
  arguments.insert(arguments.end(), {"-solve", "-quit"});
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  CbcMain1(static_cast<int>(argv.size()), argv.data(), cbc, OnStage, workspace);

  IlpResult result;
  result.nodes = cbc.getNodeCount();
  result.clock_stopped = watch.out_of_time || cbc.isSecondsLimitReached();
  if (const double* best = cbc.bestSolution(); best != nullptr) {
    result.values.assign(best, best + model.variables());
    result.objective = model.Objective(result.values);
  }
  result.bound = std::max(watch.progress.bound, cbc.getBestPossibleObjValue());
  if (cbc.isProvenOptimal() && !watch.out_of_time && !result.values.empty()) {
    result.status = IlpStatus::kOptimal;
    result.bound = result.objective;
  } else if (cbc.isProvenInfeasible() && !result.clock_stopped) {
    result.status = IlpStatus::kInfeasible;
  }
  return result;
}

}  // namespace snug::memory
