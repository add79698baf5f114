// What several threads search is what one finds, to the last bit and unit of work; and several do search. Under
// ThreadSanitizer, too.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "memory/order/order_search.h"
#include "memory/place/placers.h"
#include "memory/race.h"
#include "tests/memory/order_random_tasks.h"
#include "tests/testing/sanitizers.h"

namespace snug::core::memory {
namespace {

constexpr int kMost = 4;

void ExpectSame(const SearchReport& a, const SearchReport& b, const std::string& what) {
  EXPECT_EQ(a.work, b.work) << what;
  EXPECT_EQ(a.lower_bound, b.lower_bound) << what;
  EXPECT_EQ(a.proven, b.proven) << what;
  EXPECT_FALSE(a.clock_stopped || b.clock_stopped) << what;
  ASSERT_EQ(a.curve.size(), b.curve.size()) << what;
  for (size_t p = 0; p < a.curve.size(); ++p) {
    EXPECT_EQ(a.curve[p].total, b.curve[p].total) << what << ", point " << p;
    EXPECT_EQ(a.curve[p].lower_bound, b.curve[p].lower_bound) << what << ", point " << p;
  }
}

// Each task waits for all the others to have begun: one thread alone would never end.
TEST(PlannerThreads, RunAllUsesThemAll) {
  std::atomic<int> begun{0};
  RunAll(kMost, kMost, [&](int) {
    begun.fetch_add(1);
    while (begun.load() < kMost) std::this_thread::yield();
  });
  EXPECT_EQ(begun.load(), kMost);
}

TEST(PlannerThreads, RunAllRunsEachToItsEndOnce) {
  for (const int threads : {1, 2, 3, kMost}) {
    std::atomic<int> runs[7] = {};
    RunAll(threads, 7, [&](int index) { runs[index].fetch_add(1); });
    for (const std::atomic<int>& count : runs) EXPECT_EQ(count.load(), 1) << threads;
  }
}

TEST(PlannerThreads, TheFirstOfARaceWinsWhoeverIsFaster) {
  for (const int threads : {1, 2, 3, kMost}) {
    std::atomic<bool> later{false};
    const int winner = Race(threads, 3, [&](int index, const std::function<bool()>&) {
      if (index == 2) later = true;
      // With a thread for each the last one has long succeeded when this one does.
      while (index == 1 && threads > 2 && !later.load()) std::this_thread::yield();
      return index > 0;
    });
    EXPECT_EQ(winner, 1) << threads;
  }
}

// Random tasks for which the orderer's first, quick stages are not enough.
Tasks HardTasks(std::mt19937& random) {
  for (;;) {
    Tasks tasks = RandomOrderingTasks(random, 120);
    const absl::StatusOr<Ordering> quick = OrderBest(tasks, {.work_limit = 150'000});
    if (quick.ok() && !quick->report.proven) return tasks;
  }
}

void CompareOrders(uint32_t seed, int graphs) {
  std::mt19937 random(seed);
  for (int i = 0; i < graphs; ++i) {
    const Tasks tasks = i % 2 == 0 ? HardTasks(random) : RandomOrderingTasks(random, 60);
    // Limits that end the search in each of its stages, and between two pieces of one.
    for (const int64_t work : {20'000, 100'000, 777'777, 2'500'000}) {
      const absl::StatusOr<Ordering> one = OrderBest(tasks, {.work_limit = work});
      ASSERT_TRUE(one.ok()) << one.status();
      for (int threads = 2; threads <= kMost; ++threads) {
        const std::string what = absl::StrCat("graph ", i, ", work ", work, ", ", threads, " threads");
        const absl::StatusOr<Ordering> more = OrderBest(tasks, {.work_limit = work, .threads = threads});
        ASSERT_TRUE(more.ok()) << more.status();
        EXPECT_EQ(one->order, more->order) << what;
        EXPECT_EQ(one->peak, more->peak) << what;
        ExpectSame(one->report, more->report, what);
      }
      if (test::kSanitized && work > 500'000) break;
    }
  }
}

TEST(PlannerThreads, TheOrdererFindsTheSame) { CompareOrders(31, test::kSanitized ? 4 : 14); }

TEST(CampaignPlannerThreads, TheOrdererFindsTheSame) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "a campaign: set SNUG_CAMPAIGN";
  CompareOrders(35, 500);
}

TEST(PlannerThreads, WindowsFindTheSame) {
  std::mt19937 random(32);
  const int graphs = test::kSanitized ? 4 : 25;
  for (int i = 0; i < graphs; ++i) {
    const TaskNet net(RandomOrderingTasks(random, 200));
    TaskOrder best;
    int64_t work_left = 0;
    for (int threads = 1; threads <= kMost; ++threads) {
      OrderSearch search(net, {.threads = threads}, int64_t{1} << 20);
      ImproveByWindows(int64_t{1} << 19, &search);
      if (threads == 1) {
        best = search.best();
        work_left = search.work_left();
      }
      EXPECT_EQ(search.best(), best) << "graph " << i << ", " << threads << " threads";
      EXPECT_EQ(search.work_left(), work_left) << "graph " << i << ", " << threads << " threads";
    }
  }
}

TEST(PlannerThreads, ThePlacerFindsTheSame) {
  std::mt19937 random(33);
  const int problems = test::kSanitized ? 3 : 15;
  for (int i = 0; i < problems; ++i) {
    Problem problem;
    for (int b = 0; b < 60; ++b) {
      Buffer buffer{.size_bytes = 1 + static_cast<int64_t>(random() % 1000), .alignment = 1};
      buffer.first = static_cast<int32_t>(random() % 40);
      buffer.last = buffer.first + static_cast<int32_t>(random() % 20);
      problem.buffers.push_back(buffer);
    }
    const absl::StatusOr<Placement> one = PlaceExact(problem, {.work_limit = 6'000'000});
    ASSERT_TRUE(one.ok()) << one.status();
    for (int threads = 2; threads <= kMost; ++threads) {
      const absl::StatusOr<Placement> more = PlaceExact(problem, {.work_limit = 6'000'000, .threads = threads});
      ASSERT_TRUE(more.ok()) << more.status();
      EXPECT_EQ(one->plan.offsets, more->plan.offsets) << "problem " << i << ", " << threads << " threads";
      ExpectSame(one->report, more->report, absl::StrCat("problem ", i, ", ", threads, " threads"));
    }
  }
}

int64_t CpuNanoseconds(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

// Work that other threads did while the orderer ran, as a share of all. CPU time, which a busy machine leaves as it is.
double ShareOfOthers(const Tasks& tasks, int threads) {
  const int64_t all = CpuNanoseconds(CLOCK_PROCESS_CPUTIME_ID);
  const int64_t own = CpuNanoseconds(CLOCK_THREAD_CPUTIME_ID);
  EXPECT_TRUE(OrderBest(tasks, {.work_limit = 6'000'000, .threads = threads}).ok());
  const auto spent = static_cast<double>(CpuNanoseconds(CLOCK_PROCESS_CPUTIME_ID) - all);
  return 1 - static_cast<double>(CpuNanoseconds(CLOCK_THREAD_CPUTIME_ID) - own) / spent;
}

TEST(PlannerThreads, TheOrdererUsesThem) {
  std::mt19937 random(34);
  Tasks tasks;
  do tasks = RandomOrderingTasks(random, 120);
  while (OrderBest(tasks, {.work_limit = 6'000'000})->report.proven);
  EXPECT_LT(ShareOfOthers(tasks, 1), 0.02);
  EXPECT_GT(ShareOfOthers(tasks, 2), 0.1);
}

}  // namespace
}  // namespace snug::core::memory
