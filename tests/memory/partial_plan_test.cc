#include "memory/partial_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "memory/formats/formats.h"
#include "memory/formats/text_file.h"
#include "memory/verifier.h"
#include "tests/memory/shared_data.h"

namespace snug::core::memory {
namespace {

UsesPlan PlanOf(const PartialProblem& problem, absl::string_view name) {
  const absl::StatusOr<const Strategy*> strategy = FindStrategy(name);
  absl::StatusOr<UsesPlan> plan = PlanUses(problem, **strategy, {});
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  if (!plan.ok()) return {};
  const absl::Status verified = VerifyPartial(InSequence(problem, plan->order), plan->placement.plan);
  EXPECT_TRUE(verified.ok()) << verified.message();
  const int64_t peak = PeakOf(problem, plan->order);
  EXPECT_GE(plan->placement.plan.arena_bytes, peak);
  EXPECT_TRUE(!plan->ordered || plan->ordering.lower_bound <= peak);
  return *plan;
}

// The least peak of all legal orders: one by one.
int64_t LeastPeakOfUses(const PartialProblem& problem) {
  TaskOrder order(static_cast<size_t>(problem.tasks));
  std::iota(order.begin(), order.end(), 0);
  int64_t least = -1;
  do {
    const auto position = [&](int32_t task) { return std::find(order.begin(), order.end(), task); };
    const bool legal = std::all_of(problem.edges.begin(), problem.edges.end(),
                                   [&](const Edge& edge) { return position(edge.first) < position(edge.second); });
    if (!legal) continue;
    const int64_t peak = PeakOf(problem, order);
    if (least < 0 || peak < least) least = peak;
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

// Edges from lower to higher numbers; every buffer keeps the rule that all its uses lie between heads and tails.
PartialProblem RandomUses(std::mt19937& random) {
  const auto below = [&](int32_t limit) { return static_cast<int32_t>(random() % static_cast<uint32_t>(limit)); };
  PartialProblem problem{.tasks = 3 + below(5)};
  for (int32_t t = 1; t < problem.tasks; ++t) {
    for (int k = below(3); k > 0; --k) problem.edges.emplace_back(below(t), t);
  }
  for (int i = 0; i < 8; ++i) {
    PartialBuffer buffer{.size_bytes = 1 + below(9), .alignment = 1, .heads = {below(problem.tasks)}};
    buffer.tails = buffer.heads;
    if (below(3) == 0) {  // used by two that may come in any order
      buffer.heads.push_back(below(problem.tasks));
      buffer.tails = buffer.heads;
    } else {
      for (const auto& [a, b] : problem.edges) {
        if (a == buffer.heads[0] && below(2) == 0) buffer.tails.push_back(b);
      }
    }
    problem.buffers.push_back(std::move(buffer));
  }
  return problem;
}

TEST(PlanUses, FindsTheLeastPeakOfAllOrders) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const PartialProblem problem = RandomUses(random);
    const UsesPlan plan = PlanOf(problem, "best");
    const int64_t least = LeastPeakOfUses(problem);
    EXPECT_EQ(PeakOf(problem, plan.order), least) << "round " << round;
    EXPECT_EQ(plan.ordering.lower_bound, least) << "round " << round;
    for (const char* name : {"none", "nnc", "offset"}) {
      EXPECT_GE(PlanOf(problem, name).placement.plan.arena_bytes, least) << name;
    }
  }
}

// 0 and 1 both may write the buffer first; between them, whichever comes first, it is in use.
TEST(PlanUses, ABufferWithSeveralHeadsIsInUseFromTheFirstOfThem) {
  PartialProblem problem{.tasks = 3};
  problem.buffers = {{.size_bytes = 10, .alignment = 1, .heads = {0, 1}, .tails = {0, 1}},
                     {.size_bytes = 5, .alignment = 1, .heads = {2}, .tails = {2}}};
  EXPECT_EQ(PeakOf(problem, {0, 1, 2}), 10);
  EXPECT_EQ(PeakOf(problem, {0, 2, 1}), 15);
  EXPECT_EQ(PlanOf(problem, "best").placement.plan.arena_bytes, 10);
}

TEST(PlanUses, CompanionsAndKindsAreKept) {
  PartialProblem problem{.tasks = 4, .edges = {{0, 1}, {2, 3}}};
  problem.buffers = {{.size_bytes = 8, .alignment = 1, .heads = {0}, .tails = {0}, .companion = 1},
                     {.size_bytes = 8, .alignment = 1, .heads = {1}, .tails = {1}, .companion = 0},
                     {.size_bytes = 4, .alignment = 1, .kind = 1, .heads = {2}, .tails = {3}}};
  const UsesPlan plan = PlanOf(problem, "best");
  EXPECT_EQ(plan.placement.plan.arena_bytes, 12);
  EXPECT_EQ(plan.placement.plan.offsets[0], plan.placement.plan.offsets[1]);
}

TEST(PlanUses, NoOrderIsWorseThanTheOneThatNncUses) {
  const std::vector<std::string> files = FilesIn(SharedData("nnc/graphs"));
  if (files.empty()) GTEST_SKIP() << "no reference data at " << SharedData("nnc/graphs");
  for (const std::string& path : files) {
    SCOPED_TRACE(path);
    const absl::StatusOr<std::string> text = ReadTextFile(path);
    ASSERT_TRUE(text.ok());
    const absl::StatusOr<NncFile> file = ParseNnc(*text, path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    const UsesPlan best = PlanOf(file->problem, "best");
    const UsesPlan given = PlanOf(file->problem, "exact");
    EXPECT_TRUE(best.placement.report.proven);
    EXPECT_LE(best.placement.plan.arena_bytes, given.placement.plan.arena_bytes);
  }
}

}  // namespace
}  // namespace snug::core::memory
