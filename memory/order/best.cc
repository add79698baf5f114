#include "memory/order/best.h"

#include "memory/order/greedy.h"

namespace snug::memory {

absl::StatusOr<Ordering> OrderBest(const Tasks& tasks, const PlannerOptions& options) {
  return OrderGreedy(tasks, options);
}

}  // namespace snug::memory
