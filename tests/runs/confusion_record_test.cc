#include "tools/runs/confusion_record.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "tests/checkpoint/temporary_folder.h"

namespace snug::core::runs {
namespace {

using testing::HasSubstr;

ConfusionRecord Flowers() {
  return {.step = 300,
          .scores = "out",
          .labels = "kind",
          .rows = 12,
          .right = 8,
          .ignored = 1,
          .unpredicted = 1,
          .classes = 5,
          .occurring = 3,
          .each = {{.number = 0, .name = "a \"rose\"\n", .rows = 6, .predicted = 5, .right = 4},
                   {.number = 2, .name = "violet", .rows = 6, .predicted = 5, .right = 4},
                   {.number = 4, .name = "4", .rows = 0, .predicted = 1, .right = 0}},
          .confusions = {{.label = 0, .predicted = 2, .count = 1},
                         {.label = 0, .predicted = ConfusionRecord::kNone, .count = 1},
                         {.label = 2, .predicted = 0, .count = 1},
                         {.label = 2, .predicted = 4, .count = 1}}};
}

TEST(ConfusionRecord, IsReadAsItWasWritten) {
  const checkpoint::TemporaryFolder temporary;
  const RunFolder folder(temporary.path("."));
  EXPECT_TRUE(absl::IsNotFound(ConfusionRecord::ReadFrom(folder).status()));
  const ConfusionRecord written = Flowers();
  ASSERT_TRUE(written.WriteTo(folder).ok());
  const absl::StatusOr<ConfusionRecord> read = ConfusionRecord::ReadFrom(folder);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->ToJson(), written.ToJson());
  EXPECT_EQ(read->each, written.each);
  EXPECT_EQ(read->confusions, written.confusions);
  EXPECT_EQ(read->step, 300);
  EXPECT_EQ(read->rows - read->right, 4);
}

TEST(ConfusionRecord, WhyThereIsNoneIsReadToo) {
  const ConfusionRecord written{.step = 3, .missing = "the labels are no classes"};
  const absl::StatusOr<ConfusionRecord> read = ConfusionRecord::Parse(written.ToJson());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->missing, written.missing);
  EXPECT_EQ(read->step, 3);
}

TEST(ConfusionRecord, OfManyClassesThoseThatAreConfusedMostStay) {
  ConfusionRecord record{.classes = 1000};
  for (int64_t c = 0; c < 250; ++c) {
    // Every third class is confused with the next third one, and with its neighbour, which is right otherwise.
    const bool confused = c % 3 == 0;
    record.each.push_back({.number = 2 * c,
                           .name = absl::StrCat("c", c),
                           .rows = 50,
                           .predicted = 50,
                           .right = confused ? 20 - c / 30 : 49});
    if (confused) record.confusions.push_back({.label = 2 * c, .predicted = 2 * ((c + 3) % 249), .count = 20});
    record.confusions.push_back({.label = 2 * c, .predicted = 2 * ((c + 1) % 250), .count = 1});
  }
  record.KeepMostConfused();
  ASSERT_EQ(record.each.size(), ConfusionRecord::kMostClasses);
  int64_t last = -1, confused = 0;
  for (const ConfusionRecord::Class& one : record.each) {
    EXPECT_GT(one.number, last);
    last = one.number;
    confused += one.number % 6 == 0;
  }
  EXPECT_EQ(confused, 84);  // all that there are; the others are the first
  EXPECT_EQ(record.each[1].number, 2);
  EXPECT_EQ(record.each.back().number, 2 * 249);
  const absl::StatusOr<ConfusionRecord> read = ConfusionRecord::Parse(record.ToJson());  // checks what goes together
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_GE(read->confusions.size(), 83u);

  ConfusionRecord few = Flowers();
  few.KeepMostConfused();
  EXPECT_EQ(few.ToJson(), Flowers().ToJson());
}

TEST(ConfusionRecord, WhatDoesNotGoTogetherIsRefused) {
  const auto error = [](void (*change)(ConfusionRecord&)) {
    ConfusionRecord record = Flowers();
    change(record);
    return std::string(ConfusionRecord::Parse(record.ToJson()).status().message());
  };
  EXPECT_THAT(error([](ConfusionRecord& r) { r.each[1].number = 0; }), HasSubstr("each: expected ascending classes"));
  EXPECT_THAT(error([](ConfusionRecord& r) { r.each[2].number = 5; }),
              HasSubstr("each: expected ascending classes below 5, found 5"));
  EXPECT_THAT(error([](ConfusionRecord& r) { r.each[0].right = 6; }),
              HasSubstr("each: class 0: expected no more rows"));
  EXPECT_THAT(error([](ConfusionRecord& r) { r.confusions[0].label = 1; }), HasSubstr("found [1, 2, 1]"));
  EXPECT_THAT(error([](ConfusionRecord& r) { r.confusions[0].predicted = 3; }), HasSubstr("found [0, 3, 1]"));
  EXPECT_THAT(error([](ConfusionRecord& r) { r.confusions[0].predicted = 0; }), HasSubstr("found [0, 0, 1]"));
  EXPECT_THAT(error([](ConfusionRecord& r) { r.confusions[0].count = 7; }), HasSubstr("found [0, 2, 7]"));
  EXPECT_THAT(error([](ConfusionRecord& r) { r.each[2].predicted = 0; }),
              HasSubstr("expected no more rows than the 0 that were taken for class 4, found [2, 4, 1]"));
  EXPECT_THAT(error([](ConfusionRecord& r) { r.rows = (int64_t{1} << 53) + 1; }), HasSubstr("up to 2^53"));
  EXPECT_THAT(error([](ConfusionRecord& r) {
                r.classes = 1000;
                r.each.clear();
                r.confusions.clear();
                for (int64_t c = 0; c < 101; ++c) r.each.push_back({.number = c});
              }),
              HasSubstr("expected at most 100 classes"));
}

TEST(ConfusionRecord, WhatIsNoneIsSaidWithItsPlace) {
  for (const char* text : {"", "[]", R"({"each": 3})", R"({"each": [3]})", R"({"confusions": [[1, 2]]})",
                           R"({"confusions": [[1, 2, 3, 4]]})", R"({"confusions": [[null, 2, 3]]})", R"({"rows": -1})",
                           R"({"step": 1.5})", "{\"scores\": \"\xff\"}"}) {
    EXPECT_FALSE(ConfusionRecord::Parse(text).ok()) << text;
  }
  EXPECT_EQ(ConfusionRecord::Parse(R"({"rows": -1})").status().message(),
            "byte 9: expected a whole number, not negative, found '-'");
  EXPECT_TRUE(ConfusionRecord::Parse(R"({"new": [{"a": null}], "step": 3, "each": []})").ok());
  const checkpoint::TemporaryFolder temporary;
  const RunFolder folder(temporary.path("."));
  std::ofstream(folder.confusion()) << std::string(5 << 20, ' ');
  EXPECT_THAT(std::string(ConfusionRecord::ReadFrom(folder).status().message()),
              HasSubstr("confusion.json: expected at most"));
}

TEST(ConfusionRecord, DamagedBytesAreRefusedOrGoTogether) {
  const std::string whole = Flowers().ToJson();
  std::minstd_rand random(7);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole;
    for (int k = 0; k < 2; ++k) damaged[random() % damaged.size()] = "0123456789[]{},:\"n-"[random() % 19];
    if (round % 7 == 0) damaged.resize(random() % damaged.size());
    const absl::StatusOr<ConfusionRecord> read = ConfusionRecord::Parse(damaged);
    if (!read.ok()) continue;
    ++accepted;
    for (const ConfusionRecord::Cell& cell : read->confusions) {
      const bool known = std::any_of(read->each.begin(), read->each.end(),
                                     [&](const ConfusionRecord::Class& one) { return one.number == cell.label; });
      EXPECT_TRUE(known) << damaged;
    }
    EXPECT_TRUE(ConfusionRecord::Parse(read->ToJson()).ok()) << damaged;
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace snug::core::runs
