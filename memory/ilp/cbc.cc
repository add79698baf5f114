// Uses CBC through its C++ classes: its C interface prints to standard output whatever the log level, and reports
// solutions only when the search is over.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <coin/CbcEventHandler.hpp>
#include <coin/CbcModel.hpp>
#include <coin/CbcSolver.hpp>
#include <coin/ClpEventHandler.hpp>
#include <coin/ClpSimplex.hpp>
#include <coin/OsiClpSolverInterface.hpp>
#include <limits>
#include <string>
#include <vector>

#include "memory/ilp/solver.h"

namespace snug::core::memory {
namespace {

constexpr double kFeasible = 1e-4;  // CBC promises 1e-6, but for its own form of the program

class Silence : public CoinMessageHandler {
 public:
  int print() override { return 0; }
  CoinMessageHandler* clone() const override { return new Silence(*this); }
};

// Holds what the watchers of one search share. CBC copies the watchers along with its models.
class Watch {
 public:
  Watch(const IlpOptions& options, int32_t variables) : options_(options), variables_(variables) {}

  // Tells whether the search has to stop; once true, it stays so.
  bool Over() const { return options_.work > 0 && work_ >= options_.work; }

  // Counts an iteration of the simplex method, which costs more where there are many rows.
  bool OverAfterIteration(int rows) {
    work_ += 1 + rows / kRowsForOne;
    return Over();
  }

  // CBC searches a smaller form of the program, whose variable i is our variable `origin[i]`; null stands for i itself.
  void Progress(double objective, double bound, absl::Span<const double> solution, const int* origin) {
    progress_.values = {};
    const bool better = objective < progress_.objective;
    const bool tighter = bound > progress_.bound;
    if (!better && !tighter) return;
    if (better) progress_.objective = objective;
    if (tighter) progress_.bound = bound;
    const bool ours = origin != nullptr || solution.size() == static_cast<size_t>(variables_);
    std::vector<double> values;
    if (better && ours && !solution.empty()) {
      values.assign(static_cast<size_t>(variables_), std::numeric_limits<double>::quiet_NaN());
      for (size_t i = 0; i < solution.size(); ++i) {
        const int at = origin == nullptr ? static_cast<int>(i) : origin[i];
        if (at >= 0 && at < variables_) values[static_cast<size_t>(at)] = solution[i];
      }
      progress_.values = values;
    }
    if (options_.on_progress) options_.on_progress(progress_);
    progress_.values = {};
  }

  // Tells that the search is over. CBC still solves linear programs after that, to bring the best solution back to the
  // original program, and these must not be stopped.
  void End() { ended_ = true; }

  bool ended() const { return ended_; }
  double bound() const { return progress_.bound; }
  int64_t work() const { return work_; }

 private:
  static constexpr int kRowsForOne = 1000;

  const IlpOptions& options_;
  const int32_t variables_;
  IlpProgress progress_;
  int64_t work_ = 0;
  bool ended_ = false;
};

// Counts simplex iterations and stops linear programs: CBC looks at its limits neither while it solves one nor in its
// heuristics' searches.
class LinearWatcher : public ClpEventHandler {
 public:
  explicit LinearWatcher(Watch* watch) : watch_(watch) {}
  ClpEventHandler* clone() const override { return new LinearWatcher(*this); }
  int event(Event event) override {
    if (event != endOfIteration || watch_->ended()) return kGoOn;
    return watch_->OverAfterIteration(model_ == nullptr ? 0 : model_->numberRows()) ? kStop : kGoOn;
  }

 private:
  static constexpr int kGoOn = -1;
  static constexpr int kStop = 0;
  Watch* watch_;
};

// Stops the tree search, and reports its progress.
class TreeWatcher : public CbcEventHandler {
 public:
  explicit TreeWatcher(Watch* watch) : watch_(watch) {}
  CbcEventHandler* clone() const override { return new TreeWatcher(*this); }
  CbcAction event(CbcEvent event) override {
    if (event == endSearch && model_ != nullptr && model_->parentModel() == nullptr) watch_->End();
    // Once a linear program was cut short, the bounds that CBC reports are not valid.
    if (watch_->Over()) return stop;
    // A model with a parent is a search inside a heuristic, under further constraints: its numbers are not ours.
    if (model_ == nullptr || model_->parentModel() != nullptr) return noAction;
    const double objective = model_->getObjValue();
    const double bound = model_->getBestPossibleObjValue();
    const double* const solution = model_->bestSolution();
    const auto size = solution == nullptr ? size_t{0} : static_cast<size_t>(model_->getNumCols());
    watch_->Progress(objective < kNone ? objective : IlpModel::kInfinity,
                     std::abs(bound) < kNone ? bound : -IlpModel::kInfinity, {solution, size},
                     model_->originalColumns());
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
  Watch watch(options, model.variables());
  Silence silence;
  OsiClpSolverInterface relaxation;
  relaxation.passInMessageHandler(&silence);
  Load(model, relaxation);
  LinearWatcher linear_watcher(&watch);
  relaxation.getModelPtr()->passInEventHandler(&linear_watcher);

  CbcModel cbc(relaxation);
  cbc.passInMessageHandler(&silence);
  CbcSolverUsefulData workspace;  // makes CbcMain1 free of global state
  CbcMain0(cbc, workspace);
  cbc.setLogLevel(0);
  TreeWatcher tree_watcher(&watch);
  cbc.passInEventHandler(&tree_watcher);
  if (!options.start.empty()) {
    cbc.setBestSolution(options.start.data(), model.variables(), model.Objective(options.start), true);
  }

  std::vector<std::string> arguments = {"snug", "-log", "0"};
  const auto set = [&](absl::string_view name, double value) {
    arguments.push_back(absl::StrCat("-", name));
    arguments.push_back(absl::StrCat(value));
  };
  if (options.step > 0) set("increment", options.step * 0.999);
  set("ratioGap", 0);
  set("allowableGap", 0);
  arguments.insert(arguments.end(), {"-solve", "-quit"});
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  CbcMain1(static_cast<int>(argv.size()), argv.data(), cbc, OnStage, workspace);

  IlpResult result;
  result.work = watch.work();
  const bool finished = !watch.Over();
  result.bound = watch.bound();
  if (const double* best = cbc.bestSolution(); best != nullptr) {
    const absl::Span<const double> values(best, static_cast<size_t>(model.variables()));
    if (model.Satisfies(values, kFeasible)) {
      result.values.assign(values.begin(), values.end());
      result.objective = model.Objective(result.values);
    }
  }
  if (finished && cbc.isProvenOptimal() && !result.values.empty()) {
    result.status = IlpStatus::kOptimal;
    result.bound = result.objective;
  } else if (finished && cbc.isProvenInfeasible()) {
    result.status = IlpStatus::kInfeasible;
  }
  return result;
}

}  // namespace snug::core::memory
