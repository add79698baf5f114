// Random ordering problems, small enough for exhaustive search, and that search.
#pragma once

#include <cstdint>
#include <random>

#include "memory/tasks.h"

namespace snug::core::memory {

// Of 1 to `max_tasks` tasks, with all that Tasks can hold: values that nobody reads, that several read, resident and
// fetched ones, some without a producer, sizes of 0, edges; program order is often illegal.
Tasks RandomOrderingTasks(std::mt19937& random, int max_tasks);

// The least peak of any order, by dynamic programming over closed sets; at most 24 tasks. It shares no code with the
// orderers: it knows what Tasks says, and LifetimesOf is not asked.
int64_t LeastPeak(const Tasks& tasks);

}  // namespace snug::core::memory
