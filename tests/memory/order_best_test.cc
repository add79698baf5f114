#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "memory/formats/formats.h"
#include "memory/order/order_search.h"
#include "memory/strategies.h"
#include "tests/memory/order_random_tasks.h"
#include "tests/memory/shared_data.h"
#include "tests/testing/sanitizers.h"

namespace snug::core::memory {
namespace {

void EqualsExhaustiveSearch(uint32_t seed, int cases, int max_tasks) {
  std::mt19937 random(seed);
  for (int i = 0; i < cases; ++i) {
    const Tasks tasks = RandomOrderingTasks(random, max_tasks);
    const absl::StatusOr<Ordering> ordering = OrderBest(tasks, {});
    ASSERT_TRUE(ordering.ok()) << ordering.status();
    ASSERT_TRUE(CheckOrder(tasks, ordering->order).ok()) << "case " << i;
    const int64_t least = LeastPeak(tasks);
    ASSERT_EQ(PeakOf(tasks, ordering->order), least) << "case " << i;
    ASSERT_EQ(ordering->peak, least) << "case " << i;
    ASSERT_EQ(ordering->report.lower_bound, least) << "case " << i;
    ASSERT_TRUE(ordering->report.proven) << "case " << i;
  }
}

TEST(OrderBest, EqualsExhaustiveSearch) { EqualsExhaustiveSearch(21, 1000, 14); }

TEST(CampaignOrderBest, EqualsExhaustiveSearch) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "a campaign: set SNUG_CAMPAIGN";
  EqualsExhaustiveSearch(22, 10000, 14);
  EqualsExhaustiveSearch(23, 100000, 9);
}

TEST(OrderBest, FindsTheOptimumOfTheConformanceGraphs) {
  const std::string folder = SharedData("olla/conformance/");
  if (FilesIn(folder).empty()) GTEST_SKIP() << "NOT TESTED: nothing in " << folder << "; set SNUG_SHARED";
  // Optima: what the files state; -1 where they state none: exhaustive search finds it.
  const std::pair<const char*, int64_t> graphs[] = {{"control_dep_graph", 150},
                                                    {"diamond_graph", 130},
                                                    {"diamond_graph_with_weight", -1},
                                                    {"graph_with_bmmadd", -1},
                                                    {"graph_with_constants", 93},
                                                    {"graph_with_gradients", -1},
                                                    {"graph_with_two_weights", 524},
                                                    {"graph_with_weights", 183},
                                                    {"multi_fanin_output_graph", 110},
                                                    {"pathological_graph", -1},
                                                    {"shared_multi_fanin_output_graph", 60},
                                                    {"simple_graph", 70}};
  for (const auto& [name, stated] : graphs) {
    const absl::StatusOr<GraphFile> file = ReadGraphFile(folder + name + ".graph");
    ASSERT_TRUE(file.ok()) << file.status();
    const absl::StatusOr<Ordering> ordering = OrderBest(file->tasks, {});
    ASSERT_TRUE(ordering.ok()) << ordering.status();
    EXPECT_EQ(ordering->peak, LeastPeak(file->tasks)) << name;
    if (stated >= 0) {
      EXPECT_EQ(ordering->peak, stated) << name;
    }
    EXPECT_TRUE(ordering->report.proven) << name;
  }
}

TEST(OrderBest, IsNoWorseThanTheBestKnownAndProvesIt) {
  std::ifstream table(SharedData("olla/best_known.csv"));
  if (!table) GTEST_SKIP() << "NOT TESTED: there is no " << SharedData("olla/best_known.csv") << "; set SNUG_SHARED";
  std::string line;
  std::getline(table, line);
  int graphs = 0;
  while (std::getline(table, line)) {
    std::istringstream cells(line);
    std::string name, program_peak, best_known, bound, proven, packed;
    for (std::string* cell : {&name, &program_peak, &best_known, &bound, &proven, &packed}) {
      std::getline(cells, *cell, ',');
    }
    const absl::StatusOr<GraphFile> file = ReadGraphFile(SharedData("olla/graphs/") + name + ".graph.gz");
    ASSERT_TRUE(file.ok()) << file.status();
    const absl::StatusOr<Ordering> ordering = OrderBest(file->tasks, {});
    ASSERT_TRUE(ordering.ok()) << ordering.status();
    ASSERT_TRUE(CheckOrder(file->tasks, ordering->order).ok()) << name;
    const int64_t peak = PeakOf(file->tasks, ordering->order);
    EXPECT_LE(peak, std::stoll(best_known)) << name;
    EXPECT_EQ(peak, ordering->peak) << name;
    EXPECT_EQ(peak, ordering->report.lower_bound) << name << ": not proven";
    EXPECT_GE(peak, std::stoll(bound)) << name;
    const absl::StatusOr<Placement> placement =
        PlaceProblem(LifetimesOf(file->tasks, ordering->order), "best", {.capacity = std::stoll(packed)});
    ASSERT_TRUE(placement.ok()) << placement.status();
    EXPECT_LE(placement->plan.arena_bytes, std::stoll(packed)) << name;
    if (proven == "yes") {
      EXPECT_EQ(peak, std::stoll(best_known)) << name << ": both claim the optimum";
    }
    ++graphs;
  }
  EXPECT_EQ(graphs, 16);
}

TEST(OrderBest, WorkIsLimited) {
  std::mt19937 random(24);
  for (int i = 0; i < 20; ++i) {
    const Tasks tasks = RandomOrderingTasks(random, 60);
    for (const int64_t limit : {20'000, 200'000}) {
      const absl::StatusOr<Ordering> ordering = OrderBest(tasks, {.work_limit = limit});
      ASSERT_TRUE(ordering.ok());
      EXPECT_FALSE(ordering->report.clock_stopped);
      EXPECT_LE(ordering->report.work, limit + 5000) << "case " << i;
    }
  }
}

TEST(OrderBest, StopsAtTheClockAndSaysSo) {
  std::mt19937 random(25);
  Tasks tasks;
  do tasks = RandomOrderingTasks(random, 200);
  while (OrderBest(tasks, {.work_limit = 1000000})->report.proven);
  const absl::StatusOr<Ordering> ordering = OrderBest(tasks, {.work_limit = int64_t{1} << 60, .time_limit = 0.05});
  ASSERT_TRUE(ordering.ok());
  EXPECT_TRUE(ordering->report.clock_stopped);
  EXPECT_LT(ordering->report.seconds, 5);
  EXPECT_TRUE(CheckOrder(tasks, ordering->order).ok());
}

TEST(OrderBest, StopsWhenTheCapacityIsReached) {
  std::mt19937 random(26);
  const Tasks tasks = RandomOrderingTasks(random, 40);
  const int64_t enough = PeakOf(tasks, OrderGreedy(tasks, {})->order);
  const absl::StatusOr<Ordering> ordering = OrderBest(tasks, {.capacity = enough});
  ASSERT_TRUE(ordering.ok());
  EXPECT_LE(ordering->peak, enough);
}

TEST(OrderBest, TheCurveOnlyImproves) {
  std::mt19937 random(27);
  for (int i = 0; i < 50; ++i) {
    const absl::StatusOr<Ordering> ordering = OrderBest(RandomOrderingTasks(random, 40), {.work_limit = 100000});
    ASSERT_TRUE(ordering.ok());
    const std::vector<CurvePoint>& curve = ordering->report.curve;
    ASSERT_FALSE(curve.empty());
    for (size_t p = 1; p < curve.size(); ++p) {
      EXPECT_LE(curve[p - 1].seconds, curve[p].seconds);
      EXPECT_GE(curve[p - 1].total, curve[p].total);
      EXPECT_LE(curve[p - 1].lower_bound, curve[p].lower_bound);
    }
    EXPECT_EQ(curve.back().total, ordering->peak);
    EXPECT_EQ(curve.back().lower_bound, ordering->report.lower_bound);
  }
}

TEST(OrderBest, NothingToOrder) {
  const absl::StatusOr<Ordering> ordering = OrderBest(Tasks(), {});
  ASSERT_TRUE(ordering.ok());
  EXPECT_TRUE(ordering->order.empty());
  EXPECT_TRUE(ordering->report.proven);
}

TEST(OrderBest, AHundredThousandTasks) {
  // A deep network in training: forward tasks, backward ones that read what those wrote, and updates.
  constexpr int32_t kLayers = test::kSanitized ? 6'666 : 33'333;  // a sanitizer shows as much with fewer
  std::mt19937 random(28);
  Tasks tasks;
  const auto task = [&] {
    tasks.names.emplace_back("t");
    return tasks.size() - 1;
  };
  const auto value = [&](int32_t producer) {
    tasks.values.push_back({.size_bytes = 1 + static_cast<int64_t>(random() % 1000), .producer = producer});
    return tasks.values.size() - 1;
  };
  std::vector<size_t> activations{value(task())};
  for (int32_t l = 1; l < kLayers; ++l) {
    const int32_t forward = task();
    tasks.values[activations.back()].readers.push_back(forward);
    activations.push_back(value(forward));
  }
  const int32_t loss = task();
  tasks.values[activations.back()].readers.push_back(loss);
  size_t gradient = value(loss);
  for (int32_t l = kLayers; l-- > 0;) {
    const int32_t backward = task();
    tasks.values[gradient].readers.push_back(backward);
    tasks.values[activations[static_cast<size_t>(l)]].readers.push_back(backward);
    gradient = value(backward);
    const size_t weight = value(backward);
    tasks.values[weight].readers.push_back(task());
  }
  const absl::StatusOr<Ordering> ordering = OrderBest(tasks, {});
  ASSERT_TRUE(ordering.ok()) << ordering.status();
  EXPECT_TRUE(CheckOrder(tasks, ordering->order).ok());
  EXPECT_EQ(PeakOf(tasks, ordering->order), ordering->peak);
  EXPECT_TRUE(ordering->report.proven);
}

}  // namespace
}  // namespace snug::core::memory
