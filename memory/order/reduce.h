// Tasks that may as well run in one go, as one task. The best order of what is left has the least peak of all.
//
// Late: a task that never frees anything, and that one other waits for directly, runs just before that one. (Between
// its place in any order and that one, every closed set then has fewer live bytes; it needs no more at its new place
// than its follower does, which is asked for.) The forward half of a training graph often becomes one task by this.
// Early: a task that always frees at least what it writes, and that waits for one other directly, runs just after that
// one, if it needs no more than that one did. Updates of weights join their gradients by this.
#pragma once

#include <vector>

#include "memory/order/task_net.h"

namespace snug::memory {

struct ReducedNet {
  TaskNet net;                     // a task's write_bytes are the most that its members need beyond what is live then
  std::vector<TaskOrder> members;  // of each task: those of the original net, in order

  TaskOrder Expand(const TaskOrder& order) const;
};

ReducedNet Reduce(const TaskNet& net);

}  // namespace snug::memory
