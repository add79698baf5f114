// The ordering problem: tasks under a partial order, and the values that they pass to each other. An Order of the tasks
// turns it into a placement Problem.
//
// The bytes live at a task are those of the values that it or a task before it wrote and that it or a later one reads;
// its own outputs count even when nobody reads them. The peak of an Order is the maximum over its tasks.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "memory/problem.h"

namespace snug::core::memory {

struct TaskValue {
  std::string name;
  int64_t size_bytes = 0;
  int64_t alignment = 64;
  int32_t producer = -1;         // a task; -1: it is there before the first one
  std::vector<int32_t> readers;  // tasks, each once; they follow the producer
  bool resident = false;         // its bytes count from before the first task to after the last
  bool fetched = false;          // read after the last task
};

// Lets `writer`, which produces values[output], write it over the bytes of values[input] if it is the last to read that
// one.
struct TaskInPlace {
  int32_t output = -1;
  int32_t input = -1;
};

struct Tasks {
  std::vector<std::string> names;  // one for each task, in program order (which need not be legal)
  std::vector<TaskValue> values;
  std::vector<std::pair<int32_t, int32_t>> edges;  // precedence that follows from no value: hazards, control
  std::vector<TaskInPlace> in_place;
  std::vector<double> cost;  // the cost of each task, for critical paths; empty: all are equal

  int32_t size() const { return static_cast<int32_t>(names.size()); }
};

using TaskOrder = std::vector<int32_t>;  // has each task once

// Checks that ids are in range, sizes are not negative, and there is no cycle; the error says what is wrong and where.
absl::Status CheckTasks(const Tasks& tasks);

// Checks that `order` has each task once and after all that it needs.
absl::Status CheckOrder(const Tasks& tasks, const TaskOrder& order);

// Returns one buffer for each value, in the same sequence, and the in-place pairs that the order leaves possible (the
// output is no larger than the input, and its writer is the last reader).
Problem LifetimesOf(const Tasks& tasks, const TaskOrder& order);

// Returns the most bytes that are live at once; alignment and in-place pairs do not count.
int64_t PeakOf(const Tasks& tasks, const TaskOrder& order);

}  // namespace snug::core::memory
