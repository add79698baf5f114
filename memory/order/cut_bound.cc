#include "memory/order/cut_bound.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "memory/order/min_cut.h"

namespace snug::core::memory {

void RaiseBoundByCuts(int64_t work_limit, OrderSearch* search) {
  const TaskNet& net = search->net();
  const std::vector<int64_t>& seen = search->least_seen();  // a cut at `task`, with what the task writes, never exceeds
                                                            // this
  TaskOrder tasks(static_cast<size_t>(net.size));
  std::iota(tasks.begin(), tasks.end(), 0);
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](int32_t a, int32_t b) { return seen[static_cast<size_t>(a)] > seen[static_cast<size_t>(b)]; });
  MinCut cut(net);
  for (const int32_t task : tasks) {
    if (seen[static_cast<size_t>(task)] <= search->bound() || cut.work() >= work_limit || search->Done()) return;
    const int64_t before = cut.work();
    const int64_t live = cut.Solve(net.before[task], {&task, 1}, work_limit - before);
    search->Spend(cut.work() - before);
    search->RaiseBound(live + net.write_bytes[static_cast<size_t>(task)]);
  }
}

}  // namespace snug::core::memory
