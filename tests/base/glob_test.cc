#include "engine/base/text/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace snug::core {
namespace {

TEST(Glob, Matches) {
  EXPECT_TRUE(GlobMatches("*.bias", "fc1.bias"));
  EXPECT_TRUE(GlobMatches("layer?.*.bn*.weight", "layer1.0.bn2.weight"));
  EXPECT_TRUE(GlobMatches("*", ""));
  EXPECT_TRUE(GlobMatches("", ""));
  EXPECT_TRUE(GlobMatches("a*b*c", "abbbcbc"));
  EXPECT_TRUE(GlobMatches("**x", "x"));
  EXPECT_TRUE(GlobMatches("a**", "a"));
  EXPECT_TRUE(GlobMatches("layer1.*", "layer1.0.conv1.weight"));
  EXPECT_TRUE(GlobMatches("*.bias", "x.bias.bias"));
}

TEST(Glob, DoesNot) {
  EXPECT_FALSE(GlobMatches("*.bias", "fc1.bias2"));
  EXPECT_FALSE(GlobMatches("?", ""));
  EXPECT_FALSE(GlobMatches("", "a"));
  EXPECT_FALSE(GlobMatches("a*b", "acbc"));
  EXPECT_FALSE(GlobMatches("a*b*c", "a-b-b-c-"));
  EXPECT_FALSE(GlobMatches("layer1.*", "layer10.weight"));
  EXPECT_FALSE(GlobMatches("abc", "ab"));
}

TEST(Glob, TakesNoTimeForManyStars) {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "*a";
  EXPECT_FALSE(GlobMatches(pattern + "b", std::string(10'000, 'a')));
}

}  // namespace
}  // namespace snug::core
