// Placement under partial orders and general conflicts, and the verifier of such plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "memory/place/conflict_graph.h"
#include "memory/place/placers.h"
#include "memory/verifier.h"

namespace snug::core::memory {
namespace {

using testing::HasSubstr;

// The best over all sequences, each item at the lowest offset free: one of them is optimal.
int64_t OptimumByBruteForce(const ConflictGraph& graph) {
  std::vector<size_t> sequence(graph.items.size());
  std::iota(sequence.begin(), sequence.end(), size_t{0});
  int64_t best = std::numeric_limits<int64_t>::max();
  do {
    std::vector<int64_t> offsets(graph.items.size(), -1);
    int64_t total = 0;
    for (const size_t i : sequence) {
      int64_t offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (const int32_t c : graph.items[i].conflicts) {
          const auto other = static_cast<size_t>(c);
          if (offsets[other] < 0 || offsets[other] >= offset + graph.items[i].size_bytes) continue;
          const int64_t end = offsets[other] + graph.items[other].size_bytes;
          if (end <= offset) continue;
          offset = end;
          moved = true;
        }
      }
      offsets[i] = offset;
      total = std::max(total, offset + graph.items[i].size_bytes);
    }
    best = std::min(best, total);
  } while (std::next_permutation(sequence.begin(), sequence.end()));
  return best;
}

TEST(ConflictGraph, FindsTheOptimumOfSmallGraphs) {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    ConflictGraph graph;
    graph.items.resize(2 + random() % 5);
    for (size_t i = 0; i < graph.items.size(); ++i) {
      graph.items[i].size_bytes = 1 + static_cast<int64_t>(random() % 9);
      for (size_t j = 0; j < i; ++j) {
        if (random() % 3 == 0) continue;
        graph.items[i].conflicts.push_back(static_cast<int32_t>(j));
        graph.items[j].conflicts.push_back(static_cast<int32_t>(i));
      }
    }
    const int64_t optimum = OptimumByBruteForce(graph);
    const Placement placement = PlaceConflicts(graph, {}, {.work_limit = 20000});
    ASSERT_EQ(placement.plan.arena_bytes, optimum) << "round " << round;
    ASSERT_LE(FindCliques(graph, {}).lower_bound, optimum) << "round " << round;
  }
}

TEST(ConflictGraph, AnOddCycleNeedsMoreThanItsLargestClique) {
  ConflictGraph graph;
  for (int32_t i = 0; i < 5; ++i) {
    graph.items.push_back({.size_bytes = 1, .conflicts = {(i + 1) % 5, (i + 4) % 5}});
    std::sort(graph.items.back().conflicts.begin(), graph.items.back().conflicts.end());
  }
  EXPECT_EQ(FindCliques(graph, {}).lower_bound, 2);
  const Placement placement = PlaceConflicts(graph, {}, {.work_limit = 1000});
  EXPECT_EQ(placement.plan.arena_bytes, 3);
  EXPECT_FALSE(placement.report.proven);
}

// Any two conflict: all lie side by side, and that is the bound.
ConflictGraph Complete(int32_t n, std::mt19937& random) {
  ConflictGraph graph;
  for (int32_t i = 0; i < n; ++i) {
    ConflictGraph::Item& item = graph.items.emplace_back();
    item.size_bytes = 64 * (1 + static_cast<int64_t>(random() % 1000));
    for (int32_t j = 0; j < n; ++j) {
      if (j != i) item.conflicts.push_back(j);
    }
  }
  return graph;
}

TEST(ConflictGraph, ThousandsThatAllConflictAreProvenInOnePass) {
  std::mt19937 random(7);
  const ConflictGraph graph = Complete(2000, random);
  int64_t sum = 0;
  for (const ConflictGraph::Item& item : graph.items) sum += item.size_bytes;
  const Placement placement = PlaceConflicts(graph, {}, {});
  EXPECT_EQ(placement.plan.arena_bytes, sum);
  EXPECT_TRUE(placement.report.proven);
  EXPECT_LE(placement.report.work, 2000 * 2000);
  EXPECT_LE(FindCliques(graph, {}).work, 2000 * 2000);
}

TEST(ConflictGraph, LimitsHoldWhileThereIsNoProof) {
  std::mt19937 random(8);
  ConflictGraph graph = Complete(1000, random);
  for (ConflictGraph::Item& item : graph.items) item.conflicts.clear();
  int64_t looks = 1000;  // of one pass
  for (int32_t i = 0; i < 1000; ++i) {
    for (int32_t j = 0; j < i; ++j) {
      if (random() % 2 == 0) continue;
      graph.items[static_cast<size_t>(i)].conflicts.push_back(j);
      graph.items[static_cast<size_t>(j)].conflicts.push_back(i);
      looks += 2;
    }
  }
  for (ConflictGraph::Item& item : graph.items) std::sort(item.conflicts.begin(), item.conflicts.end());
  const Placement placement = PlaceConflicts(graph, {}, {.work_limit = 1});
  EXPECT_FALSE(placement.report.proven);
  EXPECT_LE(placement.report.work, looks);
  EXPECT_FALSE(placement.report.clock_stopped);
  const Placement timed = PlaceConflicts(graph, {}, {.work_limit = int64_t{1} << 40, .time_limit = 0.05});
  EXPECT_TRUE(timed.report.clock_stopped);
  EXPECT_LT(timed.report.seconds, 2);
  EXPECT_LE(timed.plan.arena_bytes, placement.plan.arena_bytes);
}

TEST(ConflictGraph, ImprovesOnWhatItIsGivenAndStopsAtTheCapacity) {
  ConflictGraph graph{.items = {{.size_bytes = 3, .conflicts = {1}}, {.size_bytes = 2, .conflicts = {0}}}};
  EXPECT_EQ(PlaceConflicts(graph, {10, 20}, {}).plan.arena_bytes, 5);
  EXPECT_EQ(PlaceConflicts(graph, {0, 3}, {}).plan.offsets, (std::vector<int64_t>{0, 3}));
  EXPECT_TRUE(PlaceConflicts(graph, {}, {}).report.proven);
  EXPECT_EQ(PlaceConflicts(graph, {10, 20}, {.capacity = 22}).plan.arena_bytes, 22);
  EXPECT_EQ(PlaceConflicts(graph, {10, 20}, {.capacity = 21}).plan.arena_bytes, 5);
  EXPECT_EQ(PlaceConflicts({}, {}, {}).plan.arena_bytes, 0);
}

// 0 -> 1 -> 3 and 0 -> 2 -> 3.
PartialProblem Diamond(std::vector<PartialBuffer> buffers) {
  return {.tasks = 4, .edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}}, .buffers = std::move(buffers)};
}

TEST(VerifierPartial, SeesWhatASchedulerMayRunAtOnce) {
  const PartialProblem problem = Diamond({{.name = "left", .size_bytes = 64, .heads = {1}, .tails = {1}},
                                          {.name = "right", .size_bytes = 64, .heads = {2}, .tails = {2}},
                                          {.name = "end", .size_bytes = 128, .heads = {3}, .tails = {3}}});
  EXPECT_TRUE(VerifyPartial(problem, {.offsets = {0, 64, 0}, .arena_bytes = 128}).ok());
  EXPECT_THAT(std::string(VerifyPartial(problem, {.offsets = {0, 0, 0}, .arena_bytes = 128}).message()),
              HasSubstr("\"right\""));
  EXPECT_FALSE(VerifyPartial(problem, {.offsets = {0, 64, 64}, .arena_bytes = 128}).ok());  // outside
  EXPECT_FALSE(VerifyPartial(problem, {.offsets = {0, 96, 0}, .arena_bytes = 160}).ok());   // not aligned
  EXPECT_FALSE(VerifyPartial(problem, {.offsets = {0, 64}, .arena_bytes = 128}).ok());
}

TEST(VerifierPartial, KindsCompanionsAndViews) {
  PartialProblem problem = Diamond({{.name = "a", .size_bytes = 64, .heads = {0}, .tails = {0}},
                                    {.name = "b", .size_bytes = 64, .heads = {3}, .tails = {3}}});
  const Plan same{.offsets = {0, 0}, .arena_bytes = 64};
  const Plan apart{.offsets = {0, 64}, .arena_bytes = 128};
  EXPECT_TRUE(VerifyPartial(problem, same).ok());
  problem.buffers[1].kind = 1;
  EXPECT_FALSE(VerifyPartial(problem, same).ok());
  EXPECT_TRUE(VerifyPartial(problem, apart).ok());
  problem.buffers[1].kind = 0;
  problem.buffers[0].companion = 1;
  problem.buffers[1].companion = 0;
  EXPECT_TRUE(VerifyPartial(problem, same).ok());
  EXPECT_FALSE(VerifyPartial(problem, apart).ok());
  problem.buffers[0].companion = -1;
  problem.buffers[1].companion = -1;
  problem.buffers[1].view_of = 0;
  EXPECT_TRUE(VerifyPartial(problem, same).ok());
  EXPECT_FALSE(VerifyPartial(problem, apart).ok());
  problem.edges.emplace_back(3, 0);
  EXPECT_FALSE(VerifyPartial(problem, same).ok());
}

TEST(PlacePartial, EveryStrategyVerifiesOnRandomProblems) {
  std::mt19937 random(7);
  const auto below = [&](int32_t limit) { return static_cast<int32_t>(random() % static_cast<uint32_t>(limit)); };
  int best_wins = 0;
  for (int round = 0; round < 300; ++round) {
    PartialProblem problem{.tasks = 4 + below(20)};
    for (int32_t t = 1; t < problem.tasks; ++t) {
      for (int k = below(3); k > 0; --k) problem.edges.emplace_back(below(t), t);
    }
    for (int i = 0; i < 14; ++i) {
      const int32_t head = below(problem.tasks);
      PartialBuffer buffer{.size_bytes = 64 * below(9) + (below(4) == 0 ? 24 : 0), .heads = {head}, .tails = {head}};
      buffer.kind = below(8) == 0;
      for (const auto& [a, b] : problem.edges) {
        if (a == head && below(2) == 0) buffer.tails.push_back(b);
      }
      problem.buffers.push_back(buffer);
    }
    problem.buffers.push_back({.size_bytes = 0, .heads = {0}, .tails = {0}, .view_of = 3});
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const char* strategy : {"none", "nnc", "nnc-seed", "offset", "best"}) {
      const absl::StatusOr<Placement> placement = PlacePartial(problem, strategy, {.work_limit = 20000});
      ASSERT_TRUE(placement.ok()) << placement.status().message();
      const absl::Status status = VerifyPartial(problem, placement->plan);
      ASSERT_TRUE(status.ok()) << strategy << ": " << status.message() << " round " << round;
      ASSERT_GE(placement->plan.arena_bytes, placement->report.lower_bound);
      if (std::string(strategy) == "best") {
        ASSERT_LE(placement->plan.arena_bytes, least);
        best_wins += placement->plan.arena_bytes < least;
      } else if (std::string(strategy) != "offset") {
        least = std::min(least, placement->plan.arena_bytes);
      }
    }
  }
  EXPECT_GT(best_wins, 5);
  EXPECT_THAT(std::string(PlacePartial({}, "share", {}).status().message()), HasSubstr("none, nnc"));
}

}  // namespace
}  // namespace snug::core::memory
