#include <gtest/gtest.h>

#include <random>

#include "memory/order/live_sweep.h"
#include "memory/order/order_search.h"
#include "tests/memory/order_random_tasks.h"

namespace snug::core::memory {
namespace {

TEST(TaskNet, CountsThePeakAsTasksDo) {
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    const Tasks tasks = RandomOrderingTasks(random, 30);
    const TaskNet net(tasks);
    const TaskOrder order = net.ProgramOrder();
    ASSERT_TRUE(CheckOrder(tasks, order).ok());
    EXPECT_EQ(NetPeak(net, order) + net.resident_bytes, PeakOf(tasks, order)) << "case " << i;
  }
}

TEST(TaskNet, ReductionKeepsThePartialOrder) {
  // 0 -> 1 -> 2, and 0 -> 2, which follows.
  const Tasks tasks{.names = {"a", "b", "c"}, .edges = {{0, 1}, {0, 2}, {1, 2}, {0, 1}}};
  const TaskNet net(tasks);
  EXPECT_EQ(net.after.total(), 2u);
  EXPECT_EQ(net.before[2].size(), 1u);
}

TEST(LiveSweep, KnowsEveryChangeInBothDirections) {
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    const Tasks tasks = RandomOrderingTasks(random, 20);
    const TaskNet net(tasks);
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      LiveSweep sweep(net, direction);
      TaskOrder order;
      int64_t peak = 0;
      while (static_cast<int32_t>(order.size()) < net.size) {
        std::vector<int32_t> ready;
        for (int32_t t = 0; t < net.size; ++t) {
          if (sweep.Ready(t)) ready.push_back(t);
        }
        const int32_t task = ready[random() % ready.size()];
        peak = std::max(peak, sweep.live() + sweep.Rise(task));
        const int64_t expected = sweep.live() + sweep.Delta(task);
        sweep.Take(task);
        EXPECT_EQ(sweep.live(), expected);
        order.push_back(task);
      }
      if (direction == Direction::kBackward) std::reverse(order.begin(), order.end());
      ASSERT_TRUE(CheckOrder(tasks, order).ok());
      EXPECT_EQ(peak, NetPeak(net, order)) << "case " << i;
    }
  }
}

TEST(Tighten, NeverRaisesThePeak) {
  std::mt19937 random(3);
  int lowered = 0;
  for (int i = 0; i < 500; ++i) {
    const Tasks tasks = RandomOrderingTasks(random, 40);
    const TaskNet net(tasks);
    const TaskOrder order = net.ProgramOrder();
    const TaskOrder tight = Tighten(net, order);
    ASSERT_TRUE(CheckOrder(tasks, tight).ok());
    EXPECT_LE(NetPeak(net, tight), NetPeak(net, order)) << "case " << i;
    lowered += NetPeak(net, tight) < NetPeak(net, order) ? 1 : 0;
  }
  EXPECT_GT(lowered, 100);
}

TEST(OrderGreedy, IsLegalAndNotBelowTheOptimum) {
  std::mt19937 random(4);
  for (int i = 0; i < 300; ++i) {
    const Tasks tasks = RandomOrderingTasks(random, 10);
    const absl::StatusOr<Ordering> ordering = OrderGreedy(tasks, {});
    ASSERT_TRUE(ordering.ok()) << ordering.status();
    ASSERT_TRUE(CheckOrder(tasks, ordering->order).ok());
    EXPECT_EQ(ordering->peak, PeakOf(tasks, ordering->order));
    const int64_t least = LeastPeak(tasks);
    EXPECT_GE(ordering->peak, least) << "case " << i;
    EXPECT_LE(ordering->report.lower_bound, least) << "case " << i;
  }
}

TEST(OrderGreedy, RefusesCycles) {
  const Tasks tasks{.names = {"a", "b"}, .edges = {{0, 1}, {1, 0}}};
  EXPECT_EQ(OrderGreedy(tasks, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace snug::core::memory
