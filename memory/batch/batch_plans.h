// Plans for all batches from one to another: as few as may be, each for a range of batches in which the step is the
// same but for its sizes.
//
// A plan for a range is an order, and what rests on what (stacking.h): it is legal for every batch of the range by its
// making, and offsets for one take no search. What it costs is compared with a plan for that batch alone, at batches
// that are tried. A range ends where the step becomes another one, or where one plan for both sides would cost too
// much.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "memory/batch/batch_frame.h"
#include "memory/batch/stacking.h"
#include "memory/strategies.h"

namespace snug::core::memory {

// The step of a batch.
struct BatchStep {
  Tasks tasks;
  TaskOrder given;          // a legal order
  int64_t other_bytes = 0;  // what it takes beside the arena that is planned: parameters
};
using StepOfBatch = std::function<absl::StatusOr<BatchStep>(int64_t batch)>;

struct BatchPlansOptions {
  std::string strategy = std::string(kDefaultStrategy);  // plans for single batches
  PlannerOptions planner;
  // How much more a range's plan may take than one for the batch alone, in parts of that one's bytes, others included.
  // A strategy in blocks (Strategy::in_blocks) should not be asked: its blocks are no part of a range's plan.
  double most_excess = 0.005;
  // Tries every batch. Otherwise these are: the first and the last, twice the first, twice that, and so on, and those
  // that halve the way to where a range ends; between two that are alike, batches are taken to be like them.
  bool every_batch = false;
};

// All bytes are in sum with BatchStep::other_bytes.
struct TriedBatch {
  int64_t batch = 0;
  int64_t bytes = 0;        // by the range's plan
  int64_t best_bytes = 0;   // by a plan for this batch alone
  int64_t lower_bound = 0;  // of the latter
  double seconds = 0;       // that RangePlan::PlanFor took
  double best_seconds = 0;  // that planning for this batch alone took

  double excess() const {
    return best_bytes == 0 ? 0 : static_cast<double>(bytes - best_bytes) / static_cast<double>(best_bytes);
  }
};

// The bytes of a range: fixed + batch * per_sample, and at tried batches at most so many less.
struct BytesLine {
  int64_t fixed = 0, per_sample = 0;
  int64_t most_below = 0;
};

struct RangePlan {
  int64_t first = 0, last = 0;
  std::string begins_by;          // why the range before does not go on; empty for the first
  int64_t planned_for = 0;        // the batch whose plan it was made of
  bool over_all_orders = false;   // whether the bounds are, or for that batch's order only
  std::vector<TriedBatch> tried;  // ascending, with the first and the last

  TaskOrder order;
  BatchFrame frame;
  Stacking stacking;

  double WorstExcess() const;
  BytesLine Line() const;

  // Returns the plan for the step of a batch, with its own values in their sequence. It is verified. Fails where the
  // step differs in more than sizes from those that were tried. The bound is for this order.
  absl::StatusOr<TaskPlan> PlanFor(const Tasks& tasks) const;
};

// `first` to `last`, which must be at least 1. Every batch that was tried is planned for by its range's plan, and
// verified. Errors of `step_of` come back with the batch before them.
absl::StatusOr<std::vector<RangePlan>> PlanForBatches(int64_t first, int64_t last, const StepOfBatch& step_of,
                                                      const BatchPlansOptions& options);

}  // namespace snug::core::memory
