// The independent checks of a Plan: for one order, for a partial order, and on several streams. They share no code with
// any planner.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/partial_problem.h"
#include "memory/problem.h"
#include "memory/tasks.h"

namespace snug::core::memory {

// Checks that every offset is aligned, inside the arena, and where it is fixed. No two buffers that are live at once
// may overlap, except an output written over its input as the problem allows. It sweeps over time with an ordered set
// of live ranges: O(n log n). The error names both buffers.
absl::Status Verify(const Problem& problem, const Plan& plan);

// Checks that every offset is aligned and inside the arena, that buffers that a schedule may have in use at once and
// those of different kinds do not overlap, and that companions and views lie where they must. It works out for itself
// what reaches what. O(n^2) pairs and n^2 bits.
absl::Status VerifyPartial(const PartialProblem& problem, const Plan& plan);

// What a plan on several streams is checked against, besides the tasks: which stream runs which, and the waits that
// will be enforced. The check works out for itself what can run at once.
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
