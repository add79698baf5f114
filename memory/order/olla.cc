#include "memory/order/olla.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "memory/ilp/search.h"
#include "memory/order/olla_graph.h"
#include "memory/order/olla_joint.h"
#include "memory/order/olla_lifetimes.h"
#include "memory/order/olla_stages.h"
#include "memory/order/olla_updates.h"
#include "memory/place/olla.h"
#include "memory/place/olla_pack.h"

namespace snug::memory {
namespace {

// Graphs beyond this are not looked at: who precedes whom would take more memory than the plan saves.
constexpr int32_t kMostTasks = 20'000;

// Beyond this the joint program is not tried of itself: it would only use up the limits.
constexpr int32_t kMostJointTasks = 60;

std::vector<std::pair<int32_t, int32_t>> FurtherEdges(const Tasks& tasks, const OllaOptions& olla) {
  std::vector<std::pair<int32_t, int32_t>> edges = IdleTasksFirst(tasks);
  if (!olla.early_updates) return edges;
  for (const auto& edge : EarlyUpdateEdges(tasks)) edges.push_back(edge);
  return edges;
}

// The stage's tasks in the sequence of `order`.
TaskOrder PartOf(const TaskOrder& order, const OllaStage& stage) {
  std::vector<int32_t> local(order.size(), -1);
  for (size_t i = 0; i < stage.origin.size(); ++i)
    local[static_cast<size_t>(stage.origin[i])] = static_cast<int32_t>(i);
  TaskOrder part;
  for (const int32_t task : order) {
    if (local[static_cast<size_t>(task)] >= 0) part.push_back(local[static_cast<size_t>(task)]);
  }
  return part;
}

absl::StatusOr<Ordering> OrderSplit(const Tasks& tasks, const TaskOrder& start, const PlannerOptions& options,
                                    IlpSearch* search) {
  const int64_t start_peak = PeakOf(tasks, start);
  search->Tighten(LargestTask(tasks));
  search->Improve(start_peak);
  if (tasks.size() > kMostTasks)
    return Ordering{.order = start, .peak = start_peak, .report = search->Report(start_peak)};

  const std::vector<std::pair<int32_t, int32_t>> further = FurtherEdges(tasks, options.olla);
  TaskOrder first = start;
  if (!further.empty()) {
    Tasks constrained = tasks;
    constrained.edges.insert(constrained.edges.end(), further.begin(), further.end());
    if (!CheckOrder(constrained, first).ok()) first = FirstOrder(constrained);
  }
  const OllaGraph graph(tasks, further);
  const std::vector<OllaStage> stages = SplitIntoStages(graph, further, options.olla.stages);

  // The stage with the highest peak first: once it is solved, the others need not go below it.
  std::vector<TaskOrder> orders;
  std::vector<int64_t> peaks;
  for (const OllaStage& stage : stages) {
    orders.push_back(PartOf(first, stage));
    peaks.push_back(PeakOf(stage.tasks, orders.back()));
  }
  std::vector<size_t> sequence(stages.size());
  std::iota(sequence.begin(), sequence.end(), 0);
  std::stable_sort(sequence.begin(), sequence.end(), [&](size_t a, size_t b) { return peaks[a] > peaks[b]; });

  int64_t bound = search->lower_bound();
  for (size_t at = 0; at < sequence.size(); ++at) {
    const size_t i = sequence[at];
    if ((options.olla.warm_start || stages[i].tasks.size() == 1 || at > 0) && peaks[i] <= bound) continue;
    const auto total_with = [&](int64_t peak) {
      int64_t total = peak;
      for (size_t other = 0; other < peaks.size(); ++other) total = other == i ? total : std::max(total, peaks[other]);
      return total;
    };
    const OllaGraph stage_graph(stages[i].tasks, {});
    const auto progress = [&](int64_t peak, int64_t stage_bound) {
      if (!options.olla.early_updates) search->Tighten(stage_bound);
      search->Improve(total_with(peak));
    };
    SNUG_ASSIGN_OR_RETURN(
        LifetimesResult result,
        SolveLifetimes(stage_graph, orders[i], bound, options,
                       search->Limits(1.0 / static_cast<double>(sequence.size() - at)), progress, search));
    orders[i] = std::move(result.order);
    peaks[i] = result.peak;
    bound = std::max(bound, result.lower_bound);
    progress(peaks[i], bound);
  }

  Ordering ordering;
  for (size_t i = 0; i < stages.size(); ++i) {
    for (const int32_t task : orders[i]) ordering.order.push_back(stages[i].origin[static_cast<size_t>(task)]);
  }
  ordering.peak = PeakOf(tasks, ordering.order);
  if (start_peak < ordering.peak) ordering = {.order = start, .peak = start_peak};
  ordering.report = search->Report(ordering.peak);
  return ordering;
}

absl::StatusOr<TaskOrder> StartOrder(const Tasks& tasks, const OllaOptions& olla) {
  SNUG_RETURN_IF_ERROR(CheckTasks(tasks));
  if (olla.start.empty()) return FirstOrder(tasks);
  SNUG_RETURN_IF_ERROR(Annotate(CheckOrder(tasks, olla.start), "the order to start from"));
  return olla.start;
}

// The split program; the placement's bound becomes one over all legal orders.
absl::StatusOr<OllaPlan> PlanSplit(const Tasks& tasks, const TaskOrder& start, const PlannerOptions& options) {
  OllaPlan plan;
  PlannerOptions half = options;
  half.time_limit /= 2;
  IlpSearch search(half);
  SNUG_ASSIGN_OR_RETURN(plan.ordering, OrderSplit(tasks, start, half, &search));
  plan.problem = LifetimesOf(tasks, plan.ordering.order);
  PlannerOptions rest = options;
  if (options.time_limit > 0) rest.time_limit = std::max(1e-3, options.time_limit - plan.ordering.report.seconds);
  SNUG_ASSIGN_OR_RETURN(plan.placement, PlaceOlla(plan.problem, rest));
  SearchReport& report = plan.placement.report;
  if (tasks.in_place.empty()) report.lower_bound = plan.ordering.report.lower_bound;
  report.proven = plan.placement.plan.arena_bytes <= report.lower_bound;
  for (CurvePoint& point : report.curve) point.lower_bound = std::min(point.lower_bound, report.lower_bound);
  return plan;
}

// The joint program, begun with the plan that it has to beat.
absl::StatusOr<OllaPlan> PlanJoint(const Tasks& tasks, OllaPlan start, const PlannerOptions& options) {
  const SearchReport before = start.placement.report;
  PlannerOptions rest = options;
  if (options.time_limit > 0)
    rest.time_limit = std::max(1e-3, options.time_limit - start.ordering.report.seconds - before.seconds);
  IlpSearch search(rest);
  search.Tighten(LargestTask(tasks));
  search.Tighten(start.ordering.report.lower_bound);
  search.Improve(start.placement.plan.arena_bytes);
  if (tasks.size() > kMostTasks) return start;
  const std::vector<std::pair<int32_t, int32_t>> further = FurtherEdges(tasks, options.olla);
  const OllaGraph graph(tasks, further);
  SNUG_ASSIGN_OR_RETURN(JointPlan plan, SolveJoint(graph, {start.ordering.order, start.placement.plan},
                                                   !options.olla.early_updates, rest, &search));
  OllaPlan result = std::move(start);
  result.ordering.order = std::move(plan.order);
  result.ordering.peak = PeakOf(tasks, result.ordering.order);
  result.ordering.report.proven = result.ordering.peak <= result.ordering.report.lower_bound;
  result.problem = LifetimesOf(tasks, result.ordering.order);
  result.placement.plan = std::move(plan.plan);
  SearchReport& report = result.placement.report;
  report = search.Report(result.placement.plan.arena_bytes);
  for (CurvePoint& point : report.curve) point.seconds += before.seconds;
  report.curve.insert(report.curve.begin(), before.curve.begin(), before.curve.end());
  report.seconds += before.seconds;
  report.work += before.work;
  report.clock_stopped |= before.clock_stopped;
  return result;
}

// Without any solver: the given order, the largest buffers first.
OllaPlan PlanFallback(const Tasks& tasks, const TaskOrder& start) {
  OllaPlan plan;
  plan.ordering = {.order = start, .peak = PeakOf(tasks, start)};
  plan.ordering.report.lower_bound = LargestTask(tasks);
  plan.problem = LifetimesOf(tasks, start);
  plan.placement.plan = PackLargestFirst(plan.problem);
  plan.placement.report.lower_bound = plan.ordering.report.lower_bound;
  return plan;
}

}  // namespace

absl::StatusOr<Ordering> OrderOlla(const Tasks& tasks, const PlannerOptions& options) {
  if (options.olla.mode == OllaOptions::Mode::kJoint) {
    SNUG_ASSIGN_OR_RETURN(OllaPlan plan, PlanOlla(tasks, options));
    return std::move(plan.ordering);
  }
  SNUG_ASSIGN_OR_RETURN(const TaskOrder start, StartOrder(tasks, options.olla));
  IlpSearch search(options);
  return OrderSplit(tasks, start, options, &search);
}

absl::StatusOr<OllaPlan> PlanOlla(const Tasks& tasks, const PlannerOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const TaskOrder start, StartOrder(tasks, options.olla));
  if (options.olla.mode == OllaOptions::Mode::kJoint) return PlanJoint(tasks, PlanFallback(tasks, start), options);
  SNUG_ASSIGN_OR_RETURN(OllaPlan plan, PlanSplit(tasks, start, options));
  const bool small = tasks.size() <= kMostJointTasks;
  if (options.olla.mode == OllaOptions::Mode::kSplit || plan.placement.report.proven || !small) return plan;
  return PlanJoint(tasks, std::move(plan), options);
}

}  // namespace snug::memory
