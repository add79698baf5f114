#include "memory/place/olla.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "memory/ilp/anytime.h"
#include "memory/ilp/budget.h"
#include "memory/ilp/solver.h"
#include "memory/in_place.h"
#include "memory/order/in_place_tasks.h"
#include "memory/order/olla/orders.h"
#include "memory/order/olla/programs.h"
#include "memory/order/olla/reductions.h"
#include "memory/place/placers.h"
#include "memory/problem.h"
#include "memory/share/pool.h"
#include "memory/strategies.h"

namespace snug::core::memory {
namespace {

using Mode = OllaOptions::Mode;

// For larger graphs the joint program is tried only when asked for: it would use up the limits for nothing.
constexpr int32_t kMostJointTasks = 60;

constexpr char kByGiven[] = "the given order";
constexpr char kByBest[] = "the fast planner, best";

constexpr int64_t kGivenWork = int64_t{1} << 22;  // for a search for offsets: at most a fraction of a second
constexpr int64_t kBriefWork = int64_t{1} << 18;  // for best's first run, which is so brief that even a short limit
                                                  // gets its plan
constexpr int64_t kFoundWork = int64_t{1} << 20;  // for the search for offsets of each order that a solver finds

// Returns `order` for the tasks that WithoutInPlace made: a second half stands right behind its first one.
TaskOrder PlainOrder(const InPlaceTasks& plain, const TaskOrder& order) {
  std::vector<int32_t> half_of(order.size(), -1);
  for (const auto& [before, after] : plain.tasks.edges) {
    if (plain.origin[static_cast<size_t>(after)] < 0) half_of[static_cast<size_t>(before)] = after;
  }
  TaskOrder result;
  for (const int32_t task : order) {
    result.push_back(task);
    if (const int32_t half = half_of[static_cast<size_t>(task)]; half >= 0) result.push_back(half);
  }
  return result;
}

// Does everything after the first plan, and emits what it finds at once.
class OllaSearch {
 public:
  OllaSearch(const Tasks& tasks, const Finding& first, const PlannerOptions& options, const Anytime::Emit& emit)
      : tasks_(tasks), options_(options), emit_(emit), budget_(options), total_(first.total) {}

  absl::Status Run(const TaskOrder& given) {
    SNUG_ASSIGN_OR_RETURN(plain_, WithoutInPlace(tasks_));
    TightenPeak(LargestTask(plain_->tasks));
    by_ = kByGiven;
    OfferOrder(given, kGivenWork);
    if (options_.olla.fast_start) SNUG_RETURN_IF_ERROR(StartFast(given));
    if (Proven()) {
      Note(1, bound_ < total_ ? "the programs: not begun, as the first plan fits"
                              : "the programs: not begun, as the first plan is proven to be the least");
    } else {
      RunPrograms();
    }
    emit_({.work = budget_.spent()});
    return status_;
  }

 private:
  bool Proven() const { return total_ <= std::max(bound_, options_.capacity); }
  bool Done() const { return Proven() || budget_.left() == 0 || !status_.ok(); }
  void Keep(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }

  absl::Status StartFast(const TaskOrder& given) {
    by_ = kByBest;
    for (const int64_t work : {kBriefWork, int64_t{0}}) {
      if (Proven()) break;
      SNUG_ASSIGN_OR_RETURN(const TaskPlan fast,
                            PlanBest(tasks_, given, {.work_limit = work, .threads = options_.threads}));
      Know(fast.order, LowerBound(fast.problem));
      Offer(fast.order, fast.placement.plan);
      TightenPeak(fast.ordering.lower_bound);
    }
    return absl::OkStatus();
  }

  // Remembers the order whose load is least: it could give the smallest arena, if it can be placed without waste.
  void Know(const TaskOrder& order, int64_t load) {
    if (!least_order_.empty() && load >= least_load_) return;
    least_order_ = order;
    least_load_ = load;
    offsets_solved_ = false;
  }

  void Offer(const TaskOrder& order, const Plan& plan) {
    if (plan.arena_bytes >= total_) return;
    total_ = plan.arena_bytes;
    best_ = {.order = order, .plan = plan};
    emit_({.total = total_, .order = order, .offsets = plan.offsets, .work = budget_.spent()});
    Note(0, absl::StrCat("the plan is that of ", by_));
  }

  // Looks briefly for offsets, if the order could give a smaller arena than the best one so far.
  void OfferOrder(const TaskOrder& order, int64_t work) {
    const Problem problem = LifetimesOf(tasks_, order);
    const int64_t load = LowerBound(problem);
    Know(order, load);
    if (load >= total_) return;
    const PlannerOptions quick{.work_limit = work, .threads = options_.threads};
    const absl::StatusOr<Placement> placement = PlaceFolded(problem, quick, PlaceExact);
    Keep(placement.status());
    if (placement.ok()) Offer(order, placement->plan);
  }

  // The arena is never smaller than the peak, so a bound of one bounds the other.
  void TightenPeak(int64_t bound) {
    if (bound > peak_bound_) emit_({.peak_bound = peak_bound_ = bound, .work = budget_.spent()});
    Tighten(bound);
  }
  void Tighten(int64_t bound) {
    if (bound > bound_) emit_({.bound = bound_ = bound, .work = budget_.spent()});
  }

  void Note(int32_t line, const std::string& text) { emit_({.work = budget_.spent(), .line = line, .note = text}); }

  void RunPrograms() {
    const Mode mode = options_.olla.mode;
    int32_t lines = 1;
    TaskOrder start = PlainOrder(*plain_, least_order_);
    peak_ = PeakOf(plain_->tasks, start);
    if (mode != Mode::kJoint) {
      orders_.emplace(plain_->tasks, start, options_.olla,
                      [this](int32_t program, const std::string& how_far) { Note(1 + program, how_far); });
      lines += orders_->count();
      offsets_line_ = lines++;
      NoteOffsets("not begun");
    }
    // The joint program knows nothing of what is written in place.
    if (mode == Mode::kJoint || (mode == Mode::kAuto && tasks_.in_place.empty())) {
      joint_line_ = lines++;
      joint_open_ = mode == Mode::kJoint || tasks_.size() <= kMostJointTasks;
      NoteJoint(joint_open_ ? "not begun"
                            : absl::StrCat("left out: ", tasks_.size(), " tasks, more than ", kMostJointTasks,
                                           " (--olla=joint tries all the same)"));
    }
    bool open = true;
    for (int round = 0; open && !Done(); ++round) {
      open = false;
      if (orders_.has_value() && (round == 0 || !orders_->Finished(peak_bound_))) open |= RunOrders(round);
      if (offsets_line_ > 0 && !offsets_solved_ && least_load_ < total_ && !Done()) open |= RunOffsets(round);
      if (joint_open_ && !Done()) open |= RunJoint(round);
    }
  }

  bool RunOrders(int round) {
    by_ = "the program of the order";
    const OllaOrderProgram::Host host{.found =
                                          [this](const TaskOrder& order) {
                                            peak_ = std::min(peak_, PeakOf(plain_->tasks, order));
                                            OfferOrder(plain_->OriginalOrder(order), kFoundWork);
                                          },
                                      .tighten = [this](int64_t bound) { TightenPeak(bound); },
                                      .bound = [this] { return peak_bound_; },
                                      .peak = [this] { return peak_; }};
    Keep(orders_->Run(round, host, &budget_));
    return true;
  }

  void NoteOffsets(const std::string& how_far) {
    Note(offsets_line_, absl::StrCat("the program of the offsets: ", how_far));
  }

  bool RunOffsets(int round) {
    by_ = "the program of the offsets";
    NoteOffsets("stopped before its end");
    const TaskOrder order = least_order_;
    const absl::StatusOr<OffsetsResult> result = SolveOffsets(
        LifetimesOf(tasks_, order),
        {.enough = std::max(bound_, least_load_), .most = total_, .work = budget_.Slice(round)}, options_.olla,
        [&](const Plan& plan) { Offer(order, plan); }, [](int64_t) {});
    Keep(result.status());
    if (!result.ok()) return false;
    budget_.Spend(result->work);
    offsets_solved_ = result->solved || !result->left_out.empty();
    if (!result->left_out.empty()) NoteOffsets(absl::StrCat("left out: ", result->left_out));
    if (result->solved) NoteOffsets("solved to its end");
    return true;
  }

  void NoteJoint(const std::string& how_far) {
    Note(joint_line_, absl::StrCat("the program of order and offsets in one: ", how_far));
  }

  bool RunJoint(int round) {
    by_ = "the program of order and offsets in one";
    NoteJoint("stopped before its end");
    std::vector<std::pair<int32_t, int32_t>> further = IdleTasksFirst(tasks_);
    if (options_.olla.early_updates) {
      for (const auto& edge : EarlyUpdateEdges(tasks_)) further.push_back(edge);
    }
    const bool exact = !options_.olla.early_updates && tasks_.in_place.empty();
    JointGoal goal{.most = total_, .enough = bound_, .start = {}, .work = budget_.Slice(round)};
    Tasks constrained = tasks_;
    constrained.edges.insert(constrained.edges.end(), further.begin(), further.end());
    const bool within = !best_.order.empty() && tasks_.in_place.empty() && CheckOrder(constrained, best_.order).ok();
    if (options_.olla.warm_start && within) goal.start = best_;
    const absl::StatusOr<JointResult> result = SolveJoint(
        OllaGraph(tasks_, further), goal, options_.olla, [&](const JointPlan& plan) { Offer(plan.order, plan.plan); },
        [&](int64_t bound) {
          if (exact) Tighten(bound);
        });
    Keep(result.status());
    if (!result.ok()) return false;
    budget_.Spend(result->work);
    joint_open_ = !result->solved && result->left_out.empty();
    if (!result->left_out.empty()) NoteJoint(absl::StrCat("left out: ", result->left_out));
    if (result->solved) NoteJoint("solved to its end");
    return true;
  }

  const Tasks& tasks_;
  const PlannerOptions& options_;
  const Anytime::Emit& emit_;
  IlpBudget budget_;
  absl::Status status_;
  std::string by_;  // names what finds the next plans, for the report
  int64_t total_;
  JointPlan best_;  // the plan of total_ bytes; empty while that is the first plan
  int64_t peak_bound_ = 0, bound_ = 0;
  std::optional<InPlaceTasks> plain_;
  int64_t peak_ = 0;  // the least peak of an order of plain_ that is known
  TaskOrder least_order_;
  int64_t least_load_ = 0;
  std::optional<OllaOrders> orders_;
  int32_t offsets_line_ = 0, joint_line_ = 0;  // 0: not asked for
  bool offsets_solved_ = false;                // true when the offsets of least_order_ are proven
  bool joint_open_ = false;
};

}  // namespace

absl::StatusOr<TaskPlan> PlanByOlla(const Tasks& tasks, const TaskOrder& given, const PlannerOptions& options) {
  Anytime anytime(options);
  SNUG_RETURN_IF_ERROR(CheckIlpSolver());
  SNUG_RETURN_IF_ERROR(CheckTasks(tasks));
  SNUG_RETURN_IF_ERROR(Annotate(CheckOrder(tasks, given), "the order to start from"));
  // This first plan is the answer if the limits are over before anything better is found.
  const Problem problem = LifetimesOf(tasks, given);
  SNUG_ASSIGN_OR_RETURN(const Placement quick, PlaceBoth(problem, {}));
  const Finding first{.total = quick.plan.arena_bytes,
                      .order = given,
                      .offsets = quick.plan.offsets,
                      .line = 0,
                      .note = absl::StrCat("the plan is that of ", kByGiven)};
  anytime.Take(first);
  anytime.Take({.line = 1, .note = "the plan of best, and the programs: not begun"});
  const PlannerOptions within = Anytime::Within(options);
  SNUG_RETURN_IF_ERROR(
      anytime.Run([&](const Anytime::Emit& emit) { return OllaSearch(tasks, first, within, emit).Run(given); }));
  TaskPlan plan{.order = anytime.best().order, .ordered = true};
  plan.problem = LifetimesOf(tasks, plan.order);
  plan.placement.plan = {.offsets = anytime.best().offsets, .arena_bytes = anytime.best().total};
  plan.placement.report = anytime.Report();
  plan.ordering.lower_bound = anytime.peak_bound();
  plan.ordering.clock_stopped = plan.placement.report.clock_stopped;
  return plan;
}

}  // namespace snug::core::memory
