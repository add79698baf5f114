// Decides which stream runs which Step, and what has to be waited for.
//
// Streams run their Steps in the sequence of the Order, side by side. Where two Steps on different streams conflict
// (engine/base/conflict.h), the later one waits for the earlier one; only waits are kept that neither the sequence of a
// stream nor another wait implies. Because the Plan is finished by then, this covers data flow, Variables and the reuse
// of bytes alike.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/conflict.h"
#include "memory/tasks.h"

namespace snug::core {

// Steps are numbered by their places in the Order.
struct Schedule {
  std::vector<int32_t> stream_of;                  // indexed by Step
  std::vector<std::vector<int32_t>> streams;       // the Steps of each stream, in the sequence in which it runs them
  std::vector<std::pair<int32_t, int32_t>> waits;  // (a, b): b begins after a is done; sorted by b, then by a's stream

  int count() const { return static_cast<int>(streams.size()); }
};

// Puts each task, in the order, on the stream where it can begin first, by the tasks' costs and the values they pass
// on. Ties go to the stream of the task that it waited for last, so that a critical path stays on one stream.
std::vector<int32_t> AssignStreams(const memory::Tasks& tasks, const memory::TaskOrder& order, int streams);

// Returns the schedule with the waits that Steps with these accesses need.
Schedule ScheduleStreams(const std::vector<std::vector<Access>>& accesses, std::vector<int32_t> stream_of, int streams);

// Returns how long the schedule takes if each Step takes as long as its cost, in the unit of the costs.
double EstimateSpan(const Schedule& schedule, const std::vector<double>& costs);

}  // namespace snug::core
