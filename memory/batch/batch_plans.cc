#include "memory/batch/batch_plans.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "memory/verifier.h"

namespace snug::core::memory {
namespace {

// So many batches of a range are planned for anew, to choose among their plans.
constexpr size_t kMostCandidates = 5;

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Each size is bounded by whoever made it, but their sum could still overflow.
absl::Status CheckTotal(const Tasks& tasks) {
  double total = 0;
  for (const TaskValue& value : tasks.values) total += static_cast<double>(value.size_bytes);
  if (total < 0x1p56) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("values need ", total, " bytes in all, more than any machine has"));
}

std::vector<int64_t> SizesAt(const std::vector<int32_t>& found, const Tasks& tasks) {
  std::vector<int64_t> sizes;
  sizes.reserve(found.size());
  for (const int32_t value : found) {
    sizes.push_back(value < 0 ? 0 : tasks.values[static_cast<size_t>(value)].size_bytes);
  }
  return sizes;
}

struct Tried {
  BatchStep step;
  TaskPlan best;
  double best_seconds = 0;
};
using TriedMap = std::map<int64_t, Tried>;

struct RangeCandidate {
  int64_t planned_for = 0;
  TaskOrder order;
  Stacking stacking;
};

// Tries batches and keeps what came of them.
class Trials {
 public:
  Trials(const StepOfBatch& step_of, const BatchPlansOptions& options) : step_of_(step_of), options_(options) {}

  absl::Status Try(int64_t batch) {
    if (tried_.contains(batch)) return absl::OkStatus();
    const auto try_it = [&]() -> absl::Status {
      SNUG_ASSIGN_OR_RETURN(BatchStep step, step_of_(batch));
      SNUG_RETURN_IF_ERROR(CheckTotal(step.tasks));
      const auto begin = std::chrono::steady_clock::now();
      SNUG_ASSIGN_OR_RETURN(TaskPlan best, PlanTasks(step.tasks, step.given, options_.strategy, options_.planner));
      tried_.emplace(batch, Tried{std::move(step), std::move(best), SecondsSince(begin)});
      return absl::OkStatus();
    };
    return Annotate(try_it(), absl::StrCat("batch ", batch));
  }

  // Tries both, and batches between them until it is known where the step becomes another one.
  absl::Status FindChanges(int64_t from, int64_t to) {
    SNUG_RETURN_IF_ERROR(Try(from));
    SNUG_RETURN_IF_ERROR(Try(to));
    if (to - from <= 1 || Difference(from, to).empty()) return absl::OkStatus();
    const int64_t middle = from + (to - from) / 2;
    SNUG_RETURN_IF_ERROR(FindChanges(from, middle));
    return FindChanges(middle, to);
  }

  std::string Difference(int64_t a, int64_t b) const { return DifferenceOf(at(a).step.tasks, at(b).step.tasks); }

  const Tried& at(int64_t batch) const { return tried_.at(batch); }

  // Returns the batches from `first` on that were tried and have the same step.
  std::vector<int64_t> Alike(int64_t first) const {
    std::vector<int64_t> alike;
    for (auto it = tried_.find(first); it != tried_.end(); ++it) {
      if (!alike.empty() && !Difference(first, it->first).empty()) break;
      alike.push_back(it->first);
    }
    return alike;
  }

  // Returns the first that was tried after `batch`; `batch` where there is none.
  int64_t After(int64_t batch) const {
    const auto it = tried_.upper_bound(batch);
    return it == tried_.end() ? batch : it->first;
  }

 private:
  const StepOfBatch& step_of_;
  const BatchPlansOptions& options_;
  TriedMap tried_;
};

// Batches whose steps are alike, from the first one that has no plan yet.
class AlikeBatches {
 public:
  AlikeBatches(const Trials& trials, std::vector<int64_t> batches, const BatchPlansOptions& options)
      : trials_(trials),
        options_(options),
        batches_(std::move(batches)),
        frame_(trials_.at(batches_.front()).step.tasks) {
    for (const int64_t batch : batches_) frame_.Add(trials_.at(batch).step.tasks);
  }

  // The plan of the batch's own, or where that leaves a value without bytes one for the complete step.
  absl::StatusOr<RangeCandidate> CandidateOf(int64_t batch) const {
    const Tried& tried = trials_.at(batch);
    const Tasks complete = frame_.Complete(tried.step.tasks);
    SNUG_ASSIGN_OR_RETURN(const std::vector<int32_t> found, frame_.Find(tried.step.tasks));
    RangeCandidate candidate{.planned_for = batch, .order = tried.best.order};
    Plan plan;
    if (SizesAt(found, tried.step.tasks) == SizesOf(complete) &&
        complete.in_place.size() == tried.step.tasks.in_place.size()) {
      for (const int32_t value : found) {
        plan.offsets.push_back(tried.best.placement.plan.offsets[static_cast<size_t>(value)]);
      }
      plan.arena_bytes = tried.best.placement.plan.arena_bytes;
    } else {
      SNUG_ASSIGN_OR_RETURN(TaskPlan planned,
                            PlanTasks(complete, tried.step.given, options_.strategy, options_.planner));
      candidate.order = std::move(planned.order);
      plan = std::move(planned.placement.plan);
    }
    SNUG_ASSIGN_OR_RETURN(candidate.stacking, Stacking::Of(LifetimesOf(complete, candidate.order), plan));
    return candidate;
  }

  absl::StatusOr<TriedBatch> Evaluate(const RangeCandidate& candidate, int64_t batch) const {
    const Tried& tried = trials_.at(batch);
    SNUG_ASSIGN_OR_RETURN(const std::vector<int32_t> found, frame_.Find(tried.step.tasks));
    const int64_t other = tried.step.other_bytes;
    return TriedBatch{.batch = batch,
                      .bytes = other + candidate.stacking.PlanFor(SizesAt(found, tried.step.tasks)).arena_bytes,
                      .best_bytes = other + tried.best.placement.plan.arena_bytes,
                      .lower_bound = other + tried.best.placement.report.lower_bound,
                      .best_seconds = tried.best_seconds};
  }

  // Returns the plan that reaches farthest from the first batch on, with the batches that were tried so far; among
  // equals the one that costs least where it costs most.
  absl::StatusOr<RangePlan> Best() const {
    std::optional<RangePlan> best;
    for (const int64_t batch : Candidates()) {
      SNUG_ASSIGN_OR_RETURN(RangePlan plan, PlanOf(batch));
      const bool better = !best.has_value() || plan.last > best->last ||
                          (plan.last == best->last && plan.WorstExcess() < best->WorstExcess());
      if (better) best = std::move(plan);
    }
    return *std::move(best);
  }

 private:
  static std::vector<int64_t> SizesOf(const Tasks& tasks) {
    std::vector<int64_t> sizes;
    for (const TaskValue& value : tasks.values) sizes.push_back(value.size_bytes);
    return sizes;
  }

  // Always with the first: its own plan reaches at least that far.
  std::vector<int64_t> Candidates() const {
    if (batches_.size() <= kMostCandidates) return batches_;
    std::vector<int64_t> some;
    for (size_t i = 0; i < kMostCandidates; ++i) {
      some.push_back(batches_[i * (batches_.size() - 1) / (kMostCandidates - 1)]);
    }
    return some;
  }

  // It has the first batch in any case, and as many of the others as it may, one after the other.
  absl::StatusOr<RangePlan> PlanOf(int64_t planned_for) const {
    SNUG_ASSIGN_OR_RETURN(RangeCandidate candidate, CandidateOf(planned_for));
    std::vector<TriedBatch> tried;
    bool goes_on = true;
    for (size_t i = 0; i < batches_.size() && goes_on; ++i) {
      SNUG_ASSIGN_OR_RETURN(const TriedBatch one, Evaluate(candidate, batches_[i]));
      goes_on = one.excess() <= options_.most_excess;
      if (i == 0 || goes_on) tried.push_back(one);
    }
    return RangePlan{.first = batches_.front(),
                     .last = tried.back().batch,
                     .planned_for = planned_for,
                     .over_all_orders = trials_.at(planned_for).best.ordered,
                     .tried = std::move(tried),
                     .order = std::move(candidate.order),
                     .frame = frame_,
                     .stacking = std::move(candidate.stacking)};
  }

  const Trials& trials_;
  const BatchPlansOptions& options_;
  std::vector<int64_t> batches_;
  BatchFrame frame_;
};

// The batches that are tried before it is known where ranges end.
std::vector<int64_t> FirstTrials(int64_t first, int64_t last, bool every_batch) {
  std::vector<int64_t> batches;
  for (int64_t batch = first; batch < last; batch = every_batch ? batch + 1 : batch > last / 2 ? last : 2 * batch) {
    batches.push_back(batch);
  }
  batches.push_back(last);
  return batches;
}

// Why the plan of the range before does not serve for the first batch of the next one.
std::string WhatEnds(const Trials& trials, const RangePlan& before, int64_t next) {
  if (std::string difference = trials.Difference(before.last, next); !difference.empty()) return difference;
  const Tried& tried = trials.at(next);
  const absl::StatusOr<TaskPlan> plan = before.PlanFor(tried.step.tasks);
  if (!plan.ok()) return std::string(plan.status().message());
  TriedBatch one{.batch = next,
                 .bytes = tried.step.other_bytes + plan->placement.plan.arena_bytes,
                 .best_bytes = tried.step.other_bytes + tried.best.placement.plan.arena_bytes};
  return absl::StrFormat("the plan before takes %.2f %% more than one for this batch", 100 * one.excess());
}

// What was evaluated is planned as users will have it planned, and so verified.
absl::Status VerifyTried(const Trials& trials, RangePlan& range) {
  for (TriedBatch& one : range.tried) {
    const BatchStep& step = trials.at(one.batch).step;
    const auto begin = std::chrono::steady_clock::now();
    const absl::StatusOr<TaskPlan> plan = range.PlanFor(step.tasks);
    one.seconds = SecondsSince(begin);
    SNUG_RETURN_IF_ERROR(Annotate(plan.status(), absl::StrCat("batch ", one.batch, " by the plan of its range")));
    const int64_t bytes = step.other_bytes + plan->placement.plan.arena_bytes;
    if (bytes == one.bytes) continue;
    return absl::InternalError(
        absl::StrCat("batch ", one.batch, ": the plan takes ", bytes, " bytes, expected ", one.bytes));
  }
  return absl::OkStatus();
}

}  // namespace

double RangePlan::WorstExcess() const {
  double worst = 0;
  for (const TriedBatch& one : tried) worst = std::max(worst, one.excess());
  return worst;
}

BytesLine RangePlan::Line() const {
  BytesLine line;
  const TriedBatch& from = tried.front();
  const TriedBatch& to = tried.back();
  // Rounded up, so that the line does not lie below what was tried last.
  if (const int64_t more = to.batch - from.batch; more > 0) {
    line.per_sample = (to.bytes - from.bytes + more - 1) / more;
  }
  const auto rest = [&](const TriedBatch& one) { return one.bytes - line.per_sample * one.batch; };
  line.fixed = rest(from);
  for (const TriedBatch& one : tried) line.fixed = std::max(line.fixed, rest(one));
  for (const TriedBatch& one : tried) line.most_below = std::max(line.most_below, line.fixed - rest(one));
  return line;
}

absl::StatusOr<TaskPlan> RangePlan::PlanFor(const Tasks& tasks) const {
  const auto begin = std::chrono::steady_clock::now();
  SNUG_RETURN_IF_ERROR(CheckTotal(tasks));
  SNUG_ASSIGN_OR_RETURN(const std::vector<int32_t> found, frame.Find(tasks));
  const Plan all = stacking.PlanFor(SizesAt(found, tasks));
  TaskPlan plan{.order = order, .problem = LifetimesOf(tasks, order)};
  Placement& placement = plan.placement;
  placement.plan = {.offsets = std::vector<int64_t>(tasks.values.size(), 0), .arena_bytes = all.arena_bytes};
  for (size_t v = 0; v < found.size(); ++v) {
    if (found[v] >= 0) placement.plan.offsets[static_cast<size_t>(found[v])] = all.offsets[v];
  }
  SNUG_RETURN_IF_ERROR(Verify(plan.problem, placement.plan));
  placement.report.lower_bound = LowerBound(plan.problem);
  placement.report.proven = all.arena_bytes <= placement.report.lower_bound;
  placement.report.seconds = SecondsSince(begin);
  return plan;
}

absl::StatusOr<std::vector<RangePlan>> PlanForBatches(int64_t first, int64_t last, const StepOfBatch& step_of,
                                                      const BatchPlansOptions& options) {
  if (first < 1 || last < first) {
    return absl::InvalidArgumentError(
        absl::StrCat("batches: expected 1 <= first <= last, found ", first, " to ", last));
  }
  Trials trials(step_of, options);
  const std::vector<int64_t> batches = FirstTrials(first, last, options.every_batch);
  SNUG_RETURN_IF_ERROR(trials.Try(first));
  for (size_t i = 1; i < batches.size(); ++i) SNUG_RETURN_IF_ERROR(trials.FindChanges(batches[i - 1], batches[i]));

  std::vector<RangePlan> ranges;
  for (int64_t from = first; from <= last;) {
    const AlikeBatches range(trials, trials.Alike(from), options);
    SNUG_ASSIGN_OR_RETURN(RangePlan best, range.Best());
    if (best.tried.front().excess() > options.most_excess) {
      // What other batches need costs the first one too much, even in a range of its own: values that it does not have,
      // or outputs that they do not write in place.
      SNUG_ASSIGN_OR_RETURN(best, AlikeBatches(trials, {from}, options).Best());
    }
    if (const int64_t next = trials.After(best.last); next > best.last + 1) {
      // The plan reaches to somewhere between these two. The batch between them may have a better one to offer, too.
      const int64_t middle = best.last + (next - best.last) / 2;
      SNUG_RETURN_IF_ERROR(trials.FindChanges(best.last, middle));
      SNUG_RETURN_IF_ERROR(trials.FindChanges(middle, next));
      continue;
    }
    SNUG_RETURN_IF_ERROR(VerifyTried(trials, best));
    if (!ranges.empty()) best.begins_by = WhatEnds(trials, ranges.back(), from);
    from = best.last + 1;
    ranges.push_back(std::move(best));
  }
  return ranges;
}

}  // namespace snug::core::memory
