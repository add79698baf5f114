// Orderers count every value's own bytes. For tasks with in-place pairs they get changed tasks, whose peak is that of
// orders in which outputs are written over inputs:
//
//   * An input whose reader comes last in every order becomes one value with the output of the same size that may lie
//   on it.
//   * A task whose output may lie on an input in some orders only is cut in two: the first half reads, the second one
//   writes that output, when its inputs may be free already. That gives orders more room than they have, so the bound
//   of the new tasks holds for the old ones, with every choice of what is written in place.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "memory/tasks.h"

namespace snug::core::memory {

struct InPlaceTasks {
  Tasks tasks;                  // have no in_place pairs
  std::vector<int32_t> origin;  // the old task for each new one; -1 for a second half

  TaskOrder OriginalOrder(const TaskOrder& order) const;
};

// Takes O(pairs log n), and where the pairs are few also the time of a partial order of the tasks (partial_order.h).
absl::StatusOr<InPlaceTasks> WithoutInPlace(const Tasks& tasks);

}  // namespace snug::core::memory
