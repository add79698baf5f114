#include "memory/in_place.h"

#include <gtest/gtest.h>

#include "memory/share/blocks.h"
#include "memory/verifier.h"
#include "tests/memory/random_problems.h"

namespace snug::core::memory {
namespace {

// A plan of `problem` in which the folded buffers lie side by side.
Plan FoldedSideBySide(const Problem& problem, SmallerOutputs smaller = SmallerOutputs::kWhereLoadFalls) {
  const Folded folded = Fold(problem, smaller);
  const Plan plan = Unfold(folded, PlanNone(folded.problem));
  EXPECT_TRUE(Verify(problem, plan).ok()) << Verify(problem, plan).message();
  return plan;
}

// b = sigmoid(a), c = sigmoid(b), d = sigmoid(c).
Tasks ThreeSigmoids() {
  return {.names = {"a", "b", "c", "d"},
          .values = {{.name = "a", .size_bytes = 64, .producer = 0, .readers = {1}},
                     {.name = "b", .size_bytes = 64, .producer = 1, .readers = {2}},
                     {.name = "c", .size_bytes = 64, .producer = 2, .readers = {3}},
                     {.name = "d", .size_bytes = 64, .producer = 3, .fetched = true}},
          .in_place = {{1, 0}, {2, 1}, {3, 2}}};
}

TEST(InPlace, AChainOfSigmoidsIsOneBuffer) {
  const Folded folded = Fold(LifetimesOf(ThreeSigmoids(), {0, 1, 2, 3}));
  EXPECT_EQ(folded.problem.buffers.size(), 1u);
  EXPECT_EQ(folded.problem.buffers[0].first, 0);
  EXPECT_EQ(folded.problem.buffers[0].last, 4);
  EXPECT_EQ(FoldedSideBySide(LifetimesOf(ThreeSigmoids(), {0, 1, 2, 3})).arena_bytes, 64);
}

TEST(InPlace, NotOverAValueThatALaterTaskReads) {
  // The note's trap: c = sigmoid(b) must not overwrite b, which d reads too. In the other order, d may.
  Tasks tasks = ThreeSigmoids();
  tasks.values[1].readers = {2, 3};
  tasks.values[2].fetched = true;
  tasks.values[2].readers = {};
  tasks.in_place = {{1, 0}, {2, 1}};
  EXPECT_EQ(FoldedSideBySide(LifetimesOf(tasks, {0, 1, 2, 3})).arena_bytes, 3 * 64);
  EXPECT_EQ(FoldedSideBySide(LifetimesOf(tasks, {0, 1, 3, 2})).arena_bytes, 2 * 64);
}

TEST(InPlace, OneOutputOverAnInputAndOneInputUnderAnOutput) {
  const Problem problem{.buffers = {{.name = "x", .size_bytes = 64, .first = 0, .last = 1},
                                    {.name = "y", .size_bytes = 64, .first = 0, .last = 1},
                                    {.name = "sum", .size_bytes = 64, .first = 1, .last = 2},
                                    {.name = "difference", .size_bytes = 64, .first = 1, .last = 2},
                                    {.name = "product", .size_bytes = 64, .first = 1, .last = 2}},
                        .in_place = {{2, 0}, {2, 1}, {3, 0}, {3, 1}, {4, 0}, {4, 1}}};
  EXPECT_EQ(Fold(problem).problem.buffers.size(), 3u);
  EXPECT_EQ(FoldedSideBySide(problem).arena_bytes, 3 * 64);
}

TEST(InPlace, TheLargestSavingFirst) {
  const Problem problem{.buffers = {{.name = "x", .size_bytes = 256, .first = 0, .last = 1},
                                    {.name = "small", .size_bytes = 64, .first = 1, .last = 2},
                                    {.name = "large", .size_bytes = 256, .first = 1, .last = 2}},
                        .in_place = {{1, 0}, {2, 0}}};
  EXPECT_EQ(FoldedSideBySide(problem).arena_bytes, 256 + 64);
}

TEST(InPlace, ASmallOutputDoesNotKeepALargeInputAlive) {
  // `small` is needed while `later`, as large as `x`, is: on x's bytes it would cost x's size.
  Problem problem{.buffers = {{.name = "x", .size_bytes = 1024, .first = 0, .last = 1},
                              {.name = "small", .size_bytes = 64, .first = 1, .last = 3},
                              {.name = "later", .size_bytes = 1024, .first = 2, .last = 3}},
                  .in_place = {{1, 0}}};
  EXPECT_EQ(Fold(problem).problem.buffers.size(), 3u);
  EXPECT_EQ(Fold(problem, SmallerOutputs::kAlways).problem.buffers.size(), 2u);
  problem.buffers[2].size_bytes = 32;  // and then it costs nothing
  EXPECT_EQ(Fold(problem).problem.buffers.size(), 2u);
}

TEST(InPlace, KeepsAlignmentGapsAndFixedOffsets) {
  const Problem problem{
      .buffers = {{.name = "x", .size_bytes = 96, .alignment = 32, .first = 0, .last = 5, .gaps = {{2, 3}}},
                  {.name = "y",
                   .size_bytes = 96,
                   .alignment = 64,
                   .first = 5,
                   .last = 9,
                   .gaps = {{6, 7}},
                   .fixed_offset = 128},
                  {.name = "z", .size_bytes = 96, .first = 9, .last = 9, .fixed_offset = 512}},
      .in_place = {{1, 0}, {2, 1}}};
  const Folded folded = Fold(problem);
  ASSERT_EQ(folded.problem.buffers.size(), 2u);  // z must lie elsewhere
  EXPECT_EQ(folded.problem.buffers[0].alignment, 64);
  EXPECT_EQ(folded.problem.buffers[0].fixed_offset, 128);
  ASSERT_EQ(folded.problem.buffers[0].gaps.size(), 2u);
  EXPECT_TRUE(Verify(problem, Unfold(folded, {.offsets = {128, 512}, .arena_bytes = 608})).ok());
}

TEST(InPlace, RandomProblemsVerifyAndTheLoadNeverRises) {
  std::mt19937 random(1);
  int saved = 0;
  for (int round = 0; round < 2000; ++round) {
    const Problem problem = RandomProblem(random, 4 + static_cast<int>(random() % 20));
    const int64_t none = PlanNone(problem).arena_bytes;
    const Folded folded = Fold(problem);
    ASSERT_LE(MaxLoad(folded.problem), MaxLoad(problem)) << "round " << round;
    ASSERT_LE(FoldedSideBySide(problem, SmallerOutputs::kAlways).arena_bytes, none) << "round " << round;
    ASSERT_LE(FoldedSideBySide(problem).arena_bytes, none) << "round " << round;
    saved += MaxLoad(folded.problem) < MaxLoad(problem);
  }
  EXPECT_GT(saved, 200);
}

}  // namespace
}  // namespace snug::core::memory
