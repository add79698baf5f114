#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/train/checkpoint/init_from.h"

namespace snug::core::checkpoint {
namespace {

TEST(NamePatterns, TheLastThatMatchesDecides) {
  NamePatterns patterns({"layer*", "!*.bias", "layer1.bias", "none"});
  std::string decided;
  EXPECT_TRUE(patterns.Includes("layer1.weight", &decided));
  EXPECT_EQ(decided, "layer*");
  EXPECT_FALSE(patterns.Includes("layer2.bias", &decided));
  EXPECT_EQ(decided, "!*.bias");
  EXPECT_TRUE(patterns.Includes("layer1.bias"));
  EXPECT_FALSE(patterns.Includes("fc.weight", &decided));
  EXPECT_EQ(decided, "");
  EXPECT_THAT(patterns.Unused(), testing::ElementsAre("none"));
}

TEST(NamePatterns, WithoutAnyOrWhenTheFirstLeavesOutTheRestIsIn) {
  EXPECT_TRUE(NamePatterns({}).Includes("a"));
  NamePatterns patterns({"!fc.*"});
  EXPECT_TRUE(patterns.Includes("conv.weight"));
  EXPECT_FALSE(patterns.Includes("fc.weight"));
}

}  // namespace
}  // namespace snug::core::checkpoint
