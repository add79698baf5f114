#include "memory/order/live_sweep.h"
#include "memory/order/order_search.h"
#include "memory/order/reduce.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kBestOrderWork = int64_t{1} << 25;  // takes a second or two
constexpr int64_t kStageWork = kBestOrderWork / 4;

void TryGreedyOrders(OrderSearch* search) {
  search->Offer(search->net().ProgramOrder());
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    for (const TaskPreference preference :
         {TaskPreference::kLeastDelta, TaskPreference::kLeastRise, TaskPreference::kNewest}) {
      if (search->Done()) return;
      search->Offer(GreedySweep(search->net(), direction, preference));
    }
  }
}

using Stages = void (*)(OrderSearch* search);

absl::StatusOr<Ordering> OrderBy(Stages stages, const Tasks& tasks, const PlannerOptions& options) {
  if (const absl::Status status = CheckTasks(tasks); !status.ok()) return status;
  const ReducedNet reduced = Reduce(TaskNet(tasks));
  OrderSearch search(reduced.net, options, kBestOrderWork);
  stages(&search);
  return Ordering{.order = reduced.Expand(search.best()),
                  .peak = search.peak() + reduced.net.resident_bytes,
                  .report = search.Report()};
}

}  // namespace

absl::StatusOr<Ordering> OrderGreedy(const Tasks& tasks, const PlannerOptions& options) {
  return OrderBy(TryGreedyOrders, tasks, options);
}

absl::StatusOr<Ordering> OrderBest(const Tasks& tasks, const PlannerOptions& options) {
  const Stages all = [](OrderSearch* search) {
    TryGreedyOrders(search);
    RaiseBoundByCuts(kStageWork, search);
    CloseGap(kStageWork / 4, search);  // this is enough for most graphs of networks
    ImproveByCuts(kStageWork, search);
    ImproveByWindows(kStageWork, search);
    CloseGap(search->work_left(), search);
  };
  return OrderBy(all, tasks, options);
}

}  // namespace snug::core::memory
