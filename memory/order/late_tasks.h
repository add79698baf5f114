// A late task never frees anything; it runs just before the first task that waits for it (reduce.h says why). Late
// tasks with one follower were merged with it before. For the others a search should not ask when they run, but take
// them along.
#pragma once

#include <vector>

#include "memory/order/task_net.h"

namespace snug::core::memory {

struct LateTasks {
  // With `none`, no task counts as late.
  LateTasks(const TaskNet& net, bool none);

  std::vector<char> late;  // indexed by task
  // `along` has for each task that is not late the late ones that it needs, in the order that needs the fewest bytes.
  // It leaves out those that are needed only through other tasks that are not late. `before` and `after` are the
  // precedence among tasks that are not late.
  Lists along;
  Lists before, after;
};

}  // namespace snug::core::memory
