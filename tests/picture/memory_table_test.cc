#include "tools/picture/memory_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace snug::core::cli {
namespace {

using testing::HasSubstr;

MemoryTableRow Row(const std::string& network, const std::string& mode, int64_t best, int64_t reserved) {
  MemoryTableRow row{.network = network, .batch = 1, .mode = mode, .planned = {}};
  row.planned = {{.strategy = "none", .bytes = 2 * best}, {.strategy = "best", .bytes = best}};
  if (reserved > 0) row.pytorch = EagerBytes{.order = reserved / 2, .reserved = reserved};
  return row;
}

TEST(MemoryTable, SummariesAreMeansOverRowsThatHaveBoth) {
  const auto summaries = Summarize({Row("a", "training", 60, 100), Row("b", "training", 90, 100),
                                    Row("c", "training", 5, 0), Row("a", "forward", 120, 100)});
  ASSERT_EQ(summaries.size(), 2u);
  EXPECT_EQ(summaries[0].networks, 2);
  EXPECT_DOUBLE_EQ(summaries[0].saved, 0.25);
  EXPECT_DOUBLE_EQ(summaries[0].order, 0.5);
  EXPECT_EQ(summaries[0].least_saved_by, "b");
  EXPECT_DOUBLE_EQ(summaries[1].saved, -0.2);
}

TEST(MemoryTable, NothingIsSavedAgainstWhatIsNotThere) {
  EXPECT_FALSE(Row("a", "training", 5, 0).SavedAgainstPyTorch("best").has_value());
  EXPECT_FALSE(Row("a", "training", 5, 9).SavedAgainstPyTorch("olla").has_value());
}

TEST(MemoryTable, APictureOfNothingIsAPicture) { EXPECT_THAT(SavingsSvg({}), HasSubstr("</svg>")); }

TEST(MemoryTable, WhatIsLargerThanPyTorchIsDrawnToTheLeft) {
  const std::string svg = SavingsSvg({.about = "", .rows = {Row("a", "training", 120, 100)}});
  EXPECT_THAT(svg, HasSubstr("-20 %"));
}

}  // namespace
}  // namespace snug::core::cli
