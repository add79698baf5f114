// Joins tasks that may as well run in one go. The best order of the joined tasks still has the least peak of all.
//
// A late task never frees anything, and one task waits for it directly: it runs just before that one. (Between its
// place in any order and that one, every closed set then has fewer live bytes. That it needs no more at its new place
// than its follower does is checked.) The forward half of a training graph often becomes one task in this way. An early
// task always frees at least what it writes, and waits for one task directly: it runs just after that one, if it needs
// no more than that one did. Updates of weights join their gradients in this way.
#pragma once

#include <vector>

#include "memory/order/task_net.h"

namespace snug::core::memory {

struct ReducedNet {
  TaskNet net;                     // a task's write_bytes are the most that its members need beyond what is live then
  std::vector<TaskOrder> members;  // by task: the tasks of the original net that it stands for, in order

  TaskOrder Expand(const TaskOrder& order) const;
};

ReducedNet Reduce(const TaskNet& net);

}  // namespace snug::core::memory
