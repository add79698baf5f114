#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "engine/train/data/sources.h"
#include "tests/train_data/test_dataset.h"
#include "tests/train_data/test_files.h"

namespace snug::core {
namespace {

std::vector<int32_t> LabelsOf(const Dataset& dataset) {
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < dataset.size(); ++i) labels.push_back(Sample(dataset, i).Field<int32_t>(1)[0]);
  return labels;
}

TEST(HoldBack, PartsAreDrawnOnceForEachSeed) {
  const auto whole = std::make_shared<CountingDataset>(100);
  const auto parted = HoldBack(whole, 0.2, 5);
  ASSERT_TRUE(parted.ok());
  const std::vector<int32_t> held_back = LabelsOf(*parted->held_back);
  EXPECT_EQ(held_back.size(), 20U);
  EXPECT_EQ(LabelsOf(*HoldBack(whole, 0.2, 5)->held_back), held_back);
  EXPECT_NE(LabelsOf(*HoldBack(whole, 0.2, 6)->held_back), held_back);
  EXPECT_FALSE(std::is_sorted(held_back.begin(), held_back.end()));

  std::vector<int32_t> all = LabelsOf(*parted->training);
  all.insert(all.end(), held_back.begin(), held_back.end());
  std::sort(all.begin(), all.end());
  std::vector<int32_t> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(HoldBack, LeavesBothPartsASample) {
  const auto two = std::make_shared<CountingDataset>(2);
  for (const double fraction : {0.01, 0.99}) {
    EXPECT_EQ(HoldBack(two, fraction, 0)->training->size(), 1);
    EXPECT_EQ(HoldBack(two, fraction, 0)->held_back->size(), 1);
  }
  EXPECT_EQ(HoldBack(two, 1, 0).status().message(),
            "held-back part: expected a fraction between 0 and 1 of at least 2 samples, found 1 of 2");
  EXPECT_FALSE(HoldBack(std::make_shared<CountingDataset>(1), 0.5, 0).ok());
}

}  // namespace
}  // namespace snug::core
