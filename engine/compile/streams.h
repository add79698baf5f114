// Which stream runs which Step, and what has to be waited for.
//
// Streams run their Steps in the sequence of the Order, side by side. Where two Steps on different streams conflict
// (engine/base/conflict.h), the later one waits for the earlier; of these waits only those are kept that neither the
// sequence of a stream nor another wait implies. With a finished Plan in hand, that covers data flow, Variables and the
// reuse of bytes alike.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/conflict.h"
#include "memory/tasks.h"

namespace snug {

// Numbers of Steps are places in the Order.
struct Schedule {
  std::vector<int32_t> stream_of;                  // by Step
  std::vector<std::vector<int32_t>> streams;       // the Steps of each, in the sequence in which it runs them
  std::vector<std::pair<int32_t, int32_t>> waits;  // (a, b): b begins after a is done; by b, then by a's stream

  int count() const { return static_cast<int>(streams.size()); }
};

// Each task, in the order, goes to the stream on which it can begin first, by the tasks' costs and what they hand to
// each other; of equal ones to the stream of whom it waited for last, so that a critical path stays on one stream.
std::vector<int32_t> AssignStreams(const memory::Tasks& tasks, const memory::TaskOrder& order, int streams);

// The waits for Steps with these accesses.
Schedule ScheduleStreams(const std::vector<std::vector<Access>>& accesses, std::vector<int32_t> stream_of, int streams);

// How long the schedule takes, were each Step as long as its cost. In the unit of the costs.
double EstimateSpan(const Schedule& schedule, const std::vector<double>& costs);

}  // namespace snug
