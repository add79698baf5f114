// Joins tasks that may as well run in one go (reduce.h). OLLA's programs then have far fewer binaries, and the least
// peak of all orders stays the same.
#pragma once

#include "memory/order/reduce.h"
#include "memory/tasks.h"

namespace snug::core::memory {

struct MergedTasks {
  Tasks tasks;  // what a group needs while it runs, beyond its outputs, is a value that nobody reads
  ReducedNet reduced;

  // Turns an order of the merged tasks into one of the original tasks.
  TaskOrder Expand(const TaskOrder& order) const { return reduced.Expand(order); }
  // Turns an order of the original tasks into one of the merged tasks: each group stands where its last member does, as
  // far as that is legal.
  TaskOrder Collapse(const TaskOrder& order) const;
};

MergedTasks Merge(const Tasks& tasks);

}  // namespace snug::core::memory
