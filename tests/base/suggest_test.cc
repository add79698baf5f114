#include "engine/base/text/suggest.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace snug::core {
namespace {

std::string Nearest(absl::string_view name, std::initializer_list<absl::string_view> candidates) {
  Suggester suggester(name);
  for (const absl::string_view candidate : candidates) suggester.Consider(candidate);
  return suggester.best();
}

TEST(Suggest, CountsChanges) {
  EXPECT_EQ(EditDistance("units", "units", 3), 0);
  EXPECT_EQ(EditDistance("unit", "units", 3), 1);
  EXPECT_EQ(EditDistance("untis", "units", 3), 1);  // two neighbours swapped
  EXPECT_EQ(EditDistance("kitten", "sitting", 5), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting", 2), 3);  // one more than the limit, whatever it is
  EXPECT_EQ(EditDistance("", "abc", 5), 3);
}

TEST(Suggest, FindsTheNearest) {
  EXPECT_EQ(Nearest("dens", {"relu", "dense", "conv"}), "dense");
  EXPECT_EQ(Nearest("BatchNorm", {"layer_norm", "batch_norm"}), "batch_norm");
  EXPECT_EQ(Nearest("conv2d", {"dense", "conv"}), "conv");
  EXPECT_EQ(Nearest("fc3", {"fc1", "fc2"}), "fc1");  // equally near: the first
}

TEST(Suggest, SaysNothingWhenNothingIsNear) {
  EXPECT_EQ(Nearest("xyzzy", {"relu", "dense"}), "");
  EXPECT_EQ(Nearest("a", {"b", "c"}), "");
  EXPECT_EQ(Nearest(std::string(1000, 'a'), {"aaa", "relu"}), "");
}

}  // namespace
}  // namespace snug::core
