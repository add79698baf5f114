#include "engine/base/shape.h"

#include <gtest/gtest.h>

namespace snug::core {
namespace {

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape({}).num_elements(), 1);
  EXPECT_EQ(Shape({2, 3, 4}).num_elements(), 24);
  EXPECT_EQ(Shape({2, 0, 4}).num_elements(), 0);
  EXPECT_EQ(Shape({2, 3, 4}).Count(1, 3), 12);
  EXPECT_EQ(Shape({2, 3, 4}).Count(1, 1), 1);
}

TEST(Shape, ChangesDimensions) {
  EXPECT_EQ(Shape({2, 3}).WithDim(1, 7), Shape({2, 7}));
  EXPECT_EQ(Shape({2, 3, 4}).Without(0), Shape({3, 4}));
  EXPECT_EQ(Shape({5}).Without(0), Shape());
  Shape shape;
  shape.Append(4);
  shape.Append(1);
  EXPECT_EQ(shape.ToString(), "[4, 1]");
  EXPECT_EQ(Shape().ToString(), "[]");
}

TEST(Shape, EqualityLooksAtTheRankOnly) {  // and not at what lies beyond it
  EXPECT_EQ(Shape({2, 3}).Without(1), Shape({2}));
  EXPECT_FALSE(Shape({2}) == Shape({2, 1}));
}

TEST(MakeShape, RejectsWhatCannotBe) {
  EXPECT_EQ(MakeShape({1, 2, 3})->rank(), 3);
  EXPECT_EQ(MakeShape({2, 0}).status().message(), "dimension 0 of shape [2, 0]: expected at least 1");
  EXPECT_EQ(*MakeShape({2, 0}, /*allow_empty=*/true), Shape({2, 0}));
  EXPECT_EQ(MakeShape({2, -1}, /*allow_empty=*/true).status().message(),
            "dimension -1 of shape [2, -1]: expected at least 0");
  EXPECT_EQ(MakeShape({1, 1, 1, 1, 1, 1, 1, 1, 1}).status().message(), "a shape has at most 8 dimensions, found 9");
}

TEST(MakeShape, BoundsTheElementsWithoutOverflow) {
  EXPECT_TRUE(MakeShape({int64_t{1} << 46}).ok());
  EXPECT_FALSE(MakeShape({(int64_t{1} << 46) + 1}).ok());
  EXPECT_EQ(MakeShape({int64_t{1} << 40, int64_t{1} << 40}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(MakeShape({INT64_MAX, INT64_MAX, INT64_MAX}).ok());
}

TEST(PlainStrides, AreRowMajor) {
  const Strides strides = PlainStrides({2, 3, 4});
  EXPECT_EQ(strides[0], 12);
  EXPECT_EQ(strides[1], 4);
  EXPECT_EQ(strides[2], 1);
  EXPECT_EQ(strides[3], 0);
}

TEST(BroadcastShapes, FollowsNumPy) {
  EXPECT_EQ(*BroadcastShapes({2, 3}, {}), Shape({2, 3}));
  EXPECT_EQ(*BroadcastShapes({3, 1}, {2, 1, 4}), Shape({2, 3, 4}));
  EXPECT_EQ(*BroadcastShapes({0}, {1}), Shape({0}));
  EXPECT_EQ(BroadcastShapes({2, 3}, {4}).status().message(), "shapes [2, 3] and [4] do not broadcast: 3 against 4");
  EXPECT_FALSE(BroadcastShapes({int64_t{1} << 40, 1}, {1, int64_t{1} << 40}).ok());
}

TEST(NormalizeAxis, CountsFromTheEnd) {
  EXPECT_EQ(*NormalizeAxis(-1, 3), 2);
  EXPECT_EQ(*NormalizeAxis(-3, 3), 0);
  EXPECT_EQ(*NormalizeAxis(2, 3), 2);
  EXPECT_EQ(NormalizeAxis(3, 3).status().message(), "axis 3: expected between -3 and 2 for a value of rank 3");
  EXPECT_FALSE(NormalizeAxis(-4, 3).ok());
  EXPECT_FALSE(NormalizeAxis(0, 0).ok());
}

}  // namespace
}  // namespace snug::core
