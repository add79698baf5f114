// The independent check of a Plan that runs on several streams. It knows the tasks, which stream runs which, the waits
// that will be enforced and where the values lie; it works out for itself what can run at once.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/problem.h"
#include "memory/tasks.h"

namespace snug::core::memory {

struct StreamSchedule {
  std::vector<std::vector<int32_t>> streams;       // the tasks of each stream, in the sequence in which it runs them
  std::vector<std::pair<int32_t, int32_t>> waits;  // (a, b): b does not begin before a is done
};

// Checks that every run that the schedule allows does the same as the tasks one by one in `order`:
//   every task runs once, and no circle of waits keeps one from running;
//   the readers of a value come after its writer, and the further edges are kept;
//   a task that writes bytes comes after all uses of what lay there before, and values lie there in the sequence of
//   `order`;
//   what is resident or fetched keeps its bytes.
// An output may be written over an input as tasks.in_place allows, if its writer is the last to use it. `plan` has an
// offset for each value. O(n x streams + n log n).
absl::Status VerifyUnderWaits(const Tasks& tasks, const TaskOrder& order, const StreamSchedule& schedule,
                              const Plan& plan);

}  // namespace snug::core::memory
