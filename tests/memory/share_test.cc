// The memory note's strategies: in place, sharing from a pool, both, colouring.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "memory/share/blocks.h"
#include "memory/share/pool.h"
#include "memory/strategies.h"
#include "memory/verifier.h"
#include "tests/memory/random_problems.h"

namespace snug::core::memory {
namespace {

using Placer = absl::StatusOr<Placement> (*)(const Problem&, const PlannerOptions&);

Plan Verified(const Problem& problem, Placer placer, const PlannerOptions& options = {}) {
  const absl::StatusOr<Placement> placement = placer(problem, options);
  EXPECT_TRUE(placement.ok()) << placement.status().message();
  if (!placement.ok()) return {};
  const absl::Status status = Verify(problem, placement->plan);
  EXPECT_TRUE(status.ok()) << status.message();
  return placement->plan;
}

int64_t Total(const Problem& problem, Placer placer, const PlannerOptions& options = {}) {
  return Verified(problem, placer, options).arena_bytes;
}

// Values by name, each written by one task; the tasks run in the sequence in which they are written down.
class Program {
 public:
  Program& Do(const std::string& output, int64_t bytes, const std::vector<std::string>& inputs,
              const std::string& over = "") {
    const int32_t task = tasks_.size();
    tasks_.names.push_back(output);
    id_[output] = task;
    tasks_.values.push_back({.name = output, .size_bytes = bytes, .producer = task});
    for (const std::string& input : inputs) Value(input).readers.push_back(task);
    if (!over.empty()) tasks_.in_place.push_back({id_[output], id_[over]});
    return *this;
  }
  Program& Fetch(const std::string& name) {
    Value(name).fetched = true;
    return *this;
  }
  int32_t Id(const std::string& name) const { return id_.at(name); }
  const Tasks& tasks() const { return tasks_; }
  Problem problem() const { return LifetimesOf(tasks_, ProgramOrder(tasks_)); }

 private:
  TaskValue& Value(const std::string& name) { return tasks_.values[static_cast<size_t>(id_.at(name))]; }

  Tasks tasks_;
  std::map<std::string, int32_t> id_;
};

// The note's two-layer perceptron: A -> fc1 -> act1 -> fc2 -> out, and back to d(A), which is asked for. A, the
// parameters and their gradients are the caller's. The activation's gradient reads act1.
Program NoteMlp() {
  Program net;
  net.Do("fc1", 64, {})
      .Do("act1", 64, {"fc1"}, "fc1")
      .Do("fc2", 64, {"act1"})
      .Do("out", 64, {"fc2"}, "fc2")
      .Do("d(fc2)", 64, {"out"}, "out")
      .Do("d(act1)", 64, {"d(fc2)"})
      .Do("d(fc1)", 64, {"d(act1)", "act1"}, "act1")
      .Do("d(A)", 64, {"d(fc1)"})
      .Fetch("d(A)");
  return net;
}

TEST(MemoryNote, TheMlpPlanOfTheNote) {
  const Program net = NoteMlp();
  const Plan plan = Verified(net.problem(), PlaceBoth);
  const auto at = [&](const std::string& name) { return plan.offsets[static_cast<size_t>(net.Id(name))]; };
  EXPECT_EQ(at("act1"), at("fc1"));
  EXPECT_EQ(at("d(fc1)"), at("act1"));
  EXPECT_EQ(at("out"), at("fc2"));
  EXPECT_EQ(at("d(fc2)"), at("out"));
  EXPECT_EQ(at("d(A)"), at("d(act1)"));
  EXPECT_EQ(plan.arena_bytes, 3 * 64);
  EXPECT_EQ(Total(net.problem(), PlaceInPlace), 4 * 64);
  EXPECT_EQ(PlanNone(net.problem()).arena_bytes, 8 * 64);
}

TEST(MemoryNote, AChainOfSigmoidsIsOneBuffer) {
  Program net;
  net.Do("A", 64, {}).Do("B", 64, {"A"}, "A").Do("C", 64, {"B"}, "B").Do("D", 64, {"C"}, "C");
  EXPECT_EQ(Total(net.problem(), PlaceBoth), 64);
  EXPECT_EQ(Total(net.problem(), PlaceInPlace), 64);
  EXPECT_EQ(Total(net.problem(), PlaceShare), 2 * 64);
}

TEST(MemoryNote, InPlaceNotWhereAnotherTaskReadsTheInputLater) {
  Program net;  // the trap: F reads B too
  net.Do("A", 64, {}).Do("B", 64, {"A"}, "A").Do("C", 64, {"B"}, "B").Do("F", 64, {"B", "C"}, "C");
  const Plan plan = Verified(net.problem(), PlaceBoth);
  EXPECT_NE(plan.offsets[static_cast<size_t>(net.Id("C"))], plan.offsets[static_cast<size_t>(net.Id("B"))]);
  EXPECT_EQ(plan.arena_bytes, 2 * 64);
}

TEST(MemoryNote, SharingDoesNotNeedEqualSizes) {
  Program net;  // B's bytes serve E, which is larger: the region is as large as the larger
  net.Do("B", 64, {}).Do("C", 32, {"B"}).Do("E", 128, {"C"});
  EXPECT_EQ(Total(net.problem(), PlaceShare), 128 + 32);
}

TEST(MemoryNote, TheMatchRangeSaysWhatMayShare) {
  Program net;
  net.Do("large", 4096, {}).Do("middle", 64, {"large"}).Do("small", 64, {"middle"});
  EXPECT_EQ(Total(net.problem(), PlaceShare, {.match_range = 0}), 4096 + 128);   // nothing
  EXPECT_EQ(Total(net.problem(), PlaceShare, {.match_range = 16}), 4096 + 128);  // 64 is not within 4096 / 16
  EXPECT_EQ(Total(net.problem(), PlaceShare, {.match_range = 64}), 4096 + 64);
  EXPECT_EQ(Total(net.problem(), PlaceShare, {.match_range = -1}), 4096 + 64);
}

int32_t Take(SharedBlocks& pool, int64_t bytes, int match_range) {
  return pool.Take(bytes, match_range, [](int32_t) { return true; });
}

TEST(SharedBlocks, TheSmallestThatFitsElseTheLargestThatDoesNot) {
  SharedBlocks pool;
  for (const int64_t bytes : {100, 200, 400}) pool.Open(bytes);
  for (const int32_t block : {0, 1, 2}) pool.GiveBack(block);
  EXPECT_EQ(Take(pool, 150, 16), 1);
  EXPECT_EQ(Take(pool, 1000, 4), 2);   // grows to 1000
  EXPECT_EQ(Take(pool, 1000, 4), -1);  // 100 is below 1000 / 4
  pool.GiveBack(2);
  EXPECT_EQ(Take(pool, 900, 1), -1);  // only equal sizes
  EXPECT_EQ(Take(pool, 1000, 1), 2);
  EXPECT_EQ(Take(pool, 100, 0), -1);
  pool.GiveBack(2);
  pool.GiveBack(pool.Open(1000));
  EXPECT_EQ(Take(pool, 1000, 1), 3);  // given back last
}

TEST(SharedBlocks, PassesOverWhatDoesNotSuit) {
  SharedBlocks pool;
  for (const int64_t bytes : {100, 100, 200, 50, 50}) pool.GiveBack(pool.Open(bytes));
  std::vector<int32_t> seen;
  EXPECT_EQ(pool.Take(100, 2, [&](int32_t block) { return seen.push_back(block), false; }), -1);
  EXPECT_EQ(seen, (std::vector<int32_t>{1, 0, 2, 4, 3}));
  EXPECT_EQ(pool.Take(100, 2, [&](int32_t block) { return block == 3; }), 3);
}

TEST(MemoryNote, ColoringTakesTheTightestBlock) {
  const Problem problem{.buffers = {{.name = "a", .size_bytes = 256, .first = 0, .last = 1},
                                    {.name = "b", .size_bytes = 128, .first = 0, .last = 1},
                                    {.name = "c", .size_bytes = 64, .first = 2, .last = 2},
                                    {.name = "d", .size_bytes = 192, .first = 2, .last = 3}}};
  const Plan plan = Verified(problem, PlaceColoring);
  EXPECT_EQ(plan.arena_bytes, 256 + 128);
  EXPECT_EQ(plan.offsets[2], plan.offsets[1]);
  EXPECT_EQ(plan.offsets[3], plan.offsets[0]);
}

TEST(MemoryNote, ColoringUsesGaps) {
  const Problem problem{.buffers = {{.name = "a", .size_bytes = 256, .first = 0, .last = 9, .gaps = {{2, 5}}},
                                    {.name = "b", .size_bytes = 128, .first = 2, .last = 5},
                                    {.name = "c", .size_bytes = 64, .first = 5, .last = 6}}};
  EXPECT_EQ(Total(problem, PlaceColoring), 256 + 64);
}

TEST(MemoryNote, WholeBlocksRefuseFixedOffsets) {
  const Problem problem{.buffers = {{.name = "a", .size_bytes = 64, .first = 0, .last = 1, .fixed_offset = 128}}};
  for (const Placer placer : {PlaceInPlace, PlaceShare, PlaceBoth, PlaceColoring}) {
    EXPECT_EQ(placer(problem, {}).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// The sources' strategies, by the totals they reach.
TEST(Sources, NoStrategyIsAnotherByName) {
  std::mt19937 random(14);
  std::map<std::string, std::vector<int64_t>> totals;
  for (int round = 0; round < 40; ++round) {
    const Problem problem = RandomProblem(random, 30);
    for (const char* name : {"none", "inplace", "share", "both", "coloring", "nnc", "nnc-seed", "offset"}) {
      const absl::StatusOr<Placement> placement = PlaceProblem(problem, name, {});
      ASSERT_TRUE(placement.ok()) << placement.status().message();
      totals[name].push_back(placement->plan.arena_bytes);
    }
  }
  for (const auto& [a, totals_a] : totals) {
    for (const auto& [b, totals_b] : totals) {
      if (a < b) {
        EXPECT_NE(totals_a, totals_b) << a << " and " << b;
      }
    }
  }
}

TEST(MemoryNote, RandomProblemsVerifyWithEveryRange) {
  std::mt19937 random(2);
  int auto_wins = 0;
  for (int round = 0; round < 1500; ++round) {
    const Problem problem = RandomProblem(random, 3 + static_cast<int>(random() % 30));
    const int64_t none = AlignUp(PlanNone(problem).arena_bytes, 64);
    EXPECT_LE(Total(problem, PlaceInPlace), none);
    for (const Placer placer : {PlaceShare, PlaceBoth}) {
      int64_t best = none;
      for (const int range : {0, 1, 2, 4, 16}) best = std::min(best, Total(problem, placer, {.match_range = range}));
      const int64_t found = Total(problem, placer, {.match_range = -1});
      EXPECT_LE(found, best) << "round " << round;
      auto_wins += found < Total(problem, placer);
    }
    EXPECT_GE(Total(problem, PlaceShare), MaxLoad(problem));
    EXPECT_LE(Total(problem, PlaceColoring), none);
    ASSERT_FALSE(testing::Test::HasFailure()) << "round " << round;
  }
  EXPECT_GT(auto_wins, 50);
}

}  // namespace
}  // namespace snug::core::memory
