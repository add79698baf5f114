// Orderers count every value's own bytes. For tasks with in-place options they get other tasks, whose peak is that of
// orders in which outputs are written over inputs:
//
//   * an input that its reader is always the last to read, whatever the order, becomes one value with the output of the
//     same size that may lie on it;
//   * a task whose output may lie on an input in some orders only is cut in two: the first half reads, the second one
//     writes that output, when its inputs may be free already. That gives orders more room than they have, so the bound
//     of the new tasks holds for the old ones, with every choice of what is written in place.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "memory/tasks.h"

namespace snug::memory {

struct InPlaceTasks {
  Tasks tasks;                  // without in_place
  std::vector<int32_t> origin;  // of each new task: the old one; -1: a second half

  TaskOrder OriginalOrder(const TaskOrder& order) const;
};

// O(pairs log n), and the partial order of the tasks where these are few (partial_order.h).
absl::StatusOr<InPlaceTasks> WithoutInPlace(const Tasks& tasks);

}  // namespace snug::memory
