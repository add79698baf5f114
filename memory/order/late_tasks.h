// Tasks that never free anything run just before the first task that waits for them (reduce.h says why). Those with one
// follower are merged with it before; for the others a search must not ask when, but take them along.
#pragma once

#include <vector>

#include "memory/order/task_net.h"

namespace snug::memory {

struct LateTasks {
  // With `none`, no task is taken for late.
  LateTasks(const TaskNet& net, bool none);

  std::vector<char> late;  // of each task
  // Of each task that is not: the late ones among what it needs, without those that only other such tasks lead to, in
  // the order that needs least; and the precedence among tasks that are not late.
  Lists along;
  Lists before, after;
};

}  // namespace snug::memory
