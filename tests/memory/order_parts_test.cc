// The parts of the default orderer, each against exhaustive search or brute force.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "memory/order/exact_search.h"
#include "memory/order/live_sweep.h"
#include "memory/order/min_cut.h"
#include "memory/order/order_search.h"
#include "memory/order/reduce.h"
#include "memory/order/task_net.h"
#include "tests/memory/order_random_tasks.h"

namespace snug::core::memory {
namespace {

// live(S) by its definition; -1 if S is not closed.
int64_t LiveBytes(const TaskNet& net, uint32_t set) {
  for (int32_t t = 0; t < net.size; ++t) {
    if ((set >> t & 1) == 0) continue;
    for (const int32_t earlier : net.before[t]) {
      if ((set >> earlier & 1) == 0) return -1;
    }
  }
  int64_t live = 0;
  for (size_t v = 0; v < net.values.size(); ++v) {
    const NetValue& value = net.values[v];
    bool needed = value.fetched;
    for (const int32_t reader : net.readers[static_cast<int32_t>(v)]) needed = needed || (set >> reader & 1) == 0;
    if (needed && (value.producer < 0 || (set >> value.producer & 1) != 0)) live += value.bytes;
  }
  return live;
}

TEST(MinCut, IsTheLeastOfAllClosedSets) {
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    const TaskNet net(RandomOrderingTasks(random, 10));
    MinCut cut(net);
    for (int32_t task = 0; task < net.size; ++task) {
      int64_t least = kNoBound;
      for (uint32_t set = 0; set < 1u << net.size; ++set) {
        if ((set >> task & 1) != 0) continue;
        bool holds_all = true;
        for (const int32_t earlier : net.before[task]) holds_all = holds_all && (set >> earlier & 1) != 0;
        if (const int64_t live = holds_all ? LiveBytes(net, set) : -1; live >= 0) least = std::min(least, live);
      }
      EXPECT_EQ(cut.Solve(net.before[task], {&task, 1}), least) << "case " << i;
      uint32_t inside = 0;
      for (int32_t t = 0; t < net.size; ++t) inside |= cut.Inside(t) ? 1u << t : 0;
      EXPECT_EQ(LiveBytes(net, inside), least) << "case " << i;
    }
  }
}

TEST(MinCut, IsABoundWhenItGivesUp) {
  std::mt19937 random(12);
  int given_up = 0;
  for (int i = 0; i < 200; ++i) {
    const TaskNet net(RandomOrderingTasks(random, 30));
    const int32_t task = net.size - 1;
    MinCut cut(net);
    const int64_t least = cut.Solve(net.before[task], {&task, 1});
    for (const int64_t limit : {1, 10, 100, 300}) {
      EXPECT_LE(cut.Solve(net.before[task], {&task, 1}, limit), least);
      given_up += cut.complete() ? 0 : 1;
    }
  }
  EXPECT_GT(given_up, 100);
}

TEST(Reachability, ClaimsNothingThatIsNotSo) {
  std::mt19937 random(13);
  int followed = 0, known = 0;
  for (int i = 0; i < 200; ++i) {
    const TaskNet net(RandomOrderingTasks(random, 25));
    const TaskOrder order = net.ProgramOrder();
    const Reachability reach(net.after, order);
    std::vector<std::set<int32_t>> below(static_cast<size_t>(net.size));
    for (size_t at = order.size(); at-- > 0;) {
      for (const int32_t next : net.after[order[at]]) {
        below[static_cast<size_t>(order[at])].insert(next);
        below[static_cast<size_t>(order[at])].insert(below[static_cast<size_t>(next)].begin(),
                                                     below[static_cast<size_t>(next)].end());
      }
    }
    for (int32_t a = 0; a < net.size; ++a) {
      for (int32_t b = 0; b < net.size; ++b) {
        const bool follows = below[static_cast<size_t>(b)].count(a) > 0;
        if (reach.SurelyFollows(a, b)) {
          EXPECT_TRUE(follows);
        }
        followed += follows ? 1 : 0;
        known += reach.SurelyFollows(a, b) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(known, followed * 6 / 10);
}

TEST(Reduce, KeepsTheLeastPeakAndShrinks) {
  std::mt19937 random(14);
  int64_t before = 0, after = 0;
  for (int i = 0; i < 500; ++i) {
    const Tasks tasks = RandomOrderingTasks(random, 10);
    const ReducedNet reduced = Reduce(TaskNet(tasks));
    before += tasks.size();
    after += reduced.net.size;
    ExactSearch search(reduced.net, i % 2 == 0 ? ExactSearch::Late::kTakenAlong : ExactSearch::Late::kLikeOthers);
    const int64_t least = LeastPeak(tasks) - reduced.net.resident_bytes;
    ASSERT_EQ(search.Decide(least, kNoBound), Answer::kFound) << "case " << i;
    const TaskOrder order = reduced.Expand(search.order());
    ASSERT_TRUE(CheckOrder(tasks, order).ok()) << "case " << i;
    EXPECT_EQ(PeakOf(tasks, order), least + reduced.net.resident_bytes) << "case " << i;
    EXPECT_EQ(search.Decide(least - 1, kNoBound), Answer::kNone) << "case " << i;
  }
  EXPECT_LT(after, before * 7 / 10);
}

TEST(ExactSearch, GoesOnWhereItStopped) {
  std::mt19937 random(15);
  for (int i = 0; i < 200; ++i) {
    const Tasks tasks = RandomOrderingTasks(random, 12);
    const TaskNet net(tasks);
    const int64_t least = LeastPeak(tasks) - net.resident_bytes;
    ExactSearch search(net, i % 2 == 0 ? ExactSearch::Late::kTakenAlong : ExactSearch::Late::kLikeOthers);
    for (const int64_t bound : {least + 3, least - 1, least, least - 2}) {
      Answer answer = Answer::kUnknown;
      for (int tries = 0; tries < 100000 && answer == Answer::kUnknown; ++tries) answer = search.Decide(bound, 5);
      ASSERT_EQ(answer, bound < least ? Answer::kNone : Answer::kFound) << "case " << i;
      if (answer == Answer::kFound) {
        EXPECT_LE(NetPeak(net, search.order()), bound);
      }
    }
  }
}

// The stages between greedy orders and exact search: legal, never worse, and of use.
TEST(OrderStages, ImproveAndKeepTheOrderLegal) {
  std::mt19937 random(16);
  int by_cuts = 0, by_windows = 0;
  for (int i = 0; i < 100; ++i) {
    const Tasks tasks = RandomOrderingTasks(random, 80);
    const TaskNet net(tasks);
    for (const bool cuts : {true, false}) {
      OrderSearch search(net, {}, int64_t{1} << 22);
      const int64_t before = search.Offer(net.ProgramOrder());
      if (cuts) {
        ImproveByCuts(int64_t{1} << 21, &search);
      } else {
        ImproveByWindows(int64_t{1} << 21, &search);
      }
      ASSERT_TRUE(CheckOrder(tasks, search.best()).ok()) << "case " << i;
      EXPECT_EQ(PeakOf(tasks, search.best()), search.peak() + net.resident_bytes) << "case " << i;
      EXPECT_LE(search.peak(), before) << "case " << i;
      (cuts ? by_cuts : by_windows) += search.peak() < before ? 1 : 0;
    }
  }
  EXPECT_GT(by_cuts, 5);
  EXPECT_GT(by_windows, 5);
}

}  // namespace
}  // namespace snug::core::memory
