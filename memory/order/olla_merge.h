// Tasks that may as well run in one go, as one task (reduce.h): far fewer binaries for the programs of OLLA, and the
// least peak of all orders stays what it was.
#pragma once

#include "memory/order/reduce.h"
#include "memory/tasks.h"

namespace snug::memory {

struct MergedTasks {
  Tasks tasks;  // what a group needs beyond its outputs while it runs is a value that nobody reads
  ReducedNet reduced;

  // An order of the merged tasks as one of the original ones.
  TaskOrder Expand(const TaskOrder& order) const { return reduced.Expand(order); }
  // And back: each group where the last of its members stands, as far as that is legal.
  TaskOrder Collapse(const TaskOrder& order) const;
};

MergedTasks Merge(const Tasks& tasks);

}  // namespace snug::memory
