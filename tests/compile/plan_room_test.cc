// Tests where buffers of a finished plan may lie longer, and where they move for that.
#include "engine/compile/memory/plan_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace snug::core {
namespace {

using testing::ElementsAre;

memory::Buffer Of(int64_t size, int32_t first, int32_t last) {
  return {.size_bytes = size, .alignment = 1, .first = first, .last = last};
}

// Three buffers: b lies where c came before it, and a beside them.
struct Three {
  memory::Problem problem = {.buffers = {Of(4, 0, 9), Of(4, 6, 9), Of(4, 2, 4)}};
  memory::Plan plan = {.offsets = {0, 4, 4}, .arena_bytes = 8};
  PlanRoom room{problem, &plan};
};

TEST(PlanRoom, KeepsABufferWhereNobodyElseIsThen) {
  Three three;
  EXPECT_TRUE(three.room.Keep(1, {5, 5}));
  EXPECT_TRUE(three.room.Keep(2, {2, 3})) << "it does in any case";
  EXPECT_THAT(three.plan.offsets, ElementsAre(0, 4, 4));
}

TEST(PlanRoom, ChangesNothingWhereThereIsNone) {
  Three three;
  EXPECT_FALSE(three.room.Keep(1, {4, 4}));
  EXPECT_FALSE(three.room.Keep(2, {6, 6}));
  EXPECT_THAT(three.plan.offsets, ElementsAre(0, 4, 4));
  EXPECT_TRUE(three.room.Keep(2, {5, 5})) << "what could not be kept does not count";
}

TEST(PlanRoom, CountsWhatItHasKept) {
  Three three;
  ASSERT_TRUE(three.room.Keep(1, {5, 5}));
  EXPECT_FALSE(three.room.Keep(2, {5, 5}));
}

TEST(PlanRoom, MovesABufferToTheLowestPlaceThatIsFree) {
  Three three;
  three.plan.arena_bytes = 16;
  EXPECT_TRUE(three.room.Keep(1, {0, 0}));
  EXPECT_THAT(three.plan.offsets, ElementsAre(0, 8, 4));
  EXPECT_TRUE(three.room.Keep(2, {0, 9})) << "its neighbour has gone";
  EXPECT_THAT(three.plan.offsets, ElementsAre(0, 8, 4));
}

TEST(PlanRoom, UsesGapsButKeepsNoneOfItsOwn) {
  Three three;
  three.problem.buffers[2] = Of(4, 0, 9);
  three.problem.buffers[2].gaps = {{3, 8}};
  three.problem.buffers[1] = Of(4, 5, 6);
  EXPECT_TRUE(three.room.Keep(1, {3, 8}));
  EXPECT_FALSE(three.room.Keep(1, {2, 8}));
}

TEST(PlanRoom, MovesNoBufferOfSeveralStreamsAndNoneToAnothersBytes) {
  Three three;
  three.plan.arena_bytes = 12;
  three.room.SetStreams({1, PlanRoom::kSeveral, 0});
  EXPECT_FALSE(three.room.Keep(1, {0, 0}));
  three.room.SetStreams({1, 0, 1});
  EXPECT_TRUE(three.room.Keep(1, {0, 0}));
  EXPECT_THAT(three.plan.offsets, ElementsAre(0, 8, 4));
}

}  // namespace
}  // namespace snug::core
