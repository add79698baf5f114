#include "memory/partial_plan.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/base/status.h"
#include "memory/place/placers.h"

namespace snug::core::memory {
namespace {

// The time limit covers everything: the order gets this part of it, the offsets what is left.
constexpr double kOrderPart = 0.8;
constexpr double kLeastSeconds = 1e-3;  // a limit of 0 would be none

// Tasks::values have one producer each. A buffer with several heads, any of which may come first, gets one more task
// that opens it before all of them. In an order of least peak that task stands right before the first head, where it
// costs nothing. Such tasks have the numbers from problem.tasks on.
Tasks AsTasks(const PartialProblem& problem) {
  Tasks tasks{.names = std::vector<std::string>(static_cast<size_t>(problem.tasks)), .edges = problem.edges};
  for (const PartialBuffer& buffer : problem.buffers) {
    TaskValue value{.name = buffer.name, .size_bytes = buffer.size_bytes, .alignment = buffer.alignment};
    value.producer = buffer.heads.front();
    value.readers = buffer.tails;
    if (buffer.heads.size() > 1) {
      value.producer = tasks.size();
      tasks.names.emplace_back();
      value.readers.insert(value.readers.end(), buffer.heads.begin(), buffer.heads.end());
    }
    std::sort(value.readers.begin(), value.readers.end());
    value.readers.erase(std::unique(value.readers.begin(), value.readers.end()), value.readers.end());
    value.readers.erase(std::remove(value.readers.begin(), value.readers.end(), value.producer), value.readers.end());
    tasks.values.push_back(std::move(value));
  }
  return tasks;
}

// Returns the lifetimes, as positions of first and last use, for a problem without views.
Problem Lifetimes(const PartialProblem& problem, const TaskOrder& order) {
  std::vector<int32_t> position(order.size());
  for (size_t at = 0; at < order.size(); ++at) position[static_cast<size_t>(order[at])] = static_cast<int32_t>(at);
  Problem lifetimes;
  for (const PartialBuffer& buffer : problem.buffers) {
    Buffer& b = lifetimes.buffers.emplace_back();
    b.size_bytes = buffer.size_bytes;
    b.first = problem.tasks;
    for (const int32_t head : buffer.heads) b.first = std::min(b.first, position[static_cast<size_t>(head)]);
    for (const int32_t tail : buffer.tails) b.last = std::max(b.last, position[static_cast<size_t>(tail)]);
  }
  return lifetimes;
}

}  // namespace

PartialProblem InSequence(const PartialProblem& problem, const TaskOrder& order) {
  PartialProblem sequence = problem;
  for (size_t at = 1; at < order.size(); ++at) sequence.edges.emplace_back(order[at - 1], order[at]);
  return sequence;
}

int64_t PeakOf(const PartialProblem& problem, const TaskOrder& order) {
  std::vector<int64_t> change(order.size() + 1, 0);
  for (const Buffer& buffer : Lifetimes(WithoutViews(problem), order).buffers) {
    change[static_cast<size_t>(buffer.first)] += buffer.size_bytes;
    change[static_cast<size_t>(buffer.last) + 1] -= buffer.size_bytes;
  }
  int64_t live = 0;
  int64_t peak = 0;
  for (const int64_t delta : change) peak = std::max(peak, live += delta);
  return peak;
}

absl::StatusOr<Placement> PlaceUses(const PartialProblem& problem, const Strategy& strategy,
                                    const PlannerOptions& options) {
  const absl::StatusOr<SerialForm> serial = ToSerial(problem);
  if (serial.status().code() == absl::StatusCode::kFailedPrecondition) {
    return PlacePartial(problem, strategy.name, options);
  }
  SNUG_RETURN_IF_ERROR(serial.status());
  SNUG_ASSIGN_OR_RETURN(Placement placement, strategy.place(serial->problem, options));
  placement.plan = serial->PlanOf(problem, placement.plan);
  return placement;
}

absl::StatusOr<UsesPlan> PlanUses(const PartialProblem& problem, const Strategy& strategy,
                                  const PlannerOptions& options) {
  SNUG_RETURN_IF_ERROR(CheckPartialProblem(problem));
  SNUG_ASSIGN_OR_RETURN(const PartialOrder partial, PartialOrder::Create(problem.tasks, problem.edges));
  const auto begin = std::chrono::steady_clock::now();
  UsesPlan best{.ordered = strategy.order != nullptr};
  std::vector<TaskOrder> orders = {partial.sequence()};
  if (best.ordered) {
    PlannerOptions part = options;
    part.time_limit *= kOrderPart;
    SNUG_ASSIGN_OR_RETURN(Ordering ordering, strategy.order(AsTasks(WithoutViews(problem)), part));
    best.ordering = std::move(ordering.report);
    TaskOrder& found = orders.emplace_back();
    std::copy_if(ordering.order.begin(), ordering.order.end(), std::back_inserter(found),
                 [&](int32_t task) { return task < problem.tasks; });
    // When two orders are equally good, the given one comes first.
    if (PeakOf(problem, found) < PeakOf(problem, orders[0])) std::swap(orders[0], orders[1]);
  }
  for (TaskOrder& order : orders) {
    const bool first = best.order.empty();
    if (!first && best.placement.plan.arena_bytes <= PeakOf(problem, order)) break;
    PlannerOptions rest = options;
    if (rest.time_limit > 0) {
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
      rest.time_limit = std::max(kLeastSeconds, options.time_limit - passed.count());
    }
    SNUG_ASSIGN_OR_RETURN(Placement placement, PlaceUses(InSequence(problem, order), strategy, rest));
    if (!first && placement.plan.arena_bytes >= best.placement.plan.arena_bytes) break;
    best.placement = std::move(placement);
    best.order = std::move(order);
  }
  SearchReport& report = best.placement.report;
  if (best.ordered) report.lower_bound = best.ordering.lower_bound;
  report.proven = best.placement.plan.arena_bytes <= report.lower_bound;
  return best;
}

}  // namespace snug::core::memory
