#include "tools/runs/run_record.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/checkpoint/temporary_folder.h"

namespace snug::core::runs {
namespace {

TEST(RunRecord, IsReadAsItWasWritten) {
  const checkpoint::TemporaryFolder temporary;
  const RunFolder folder(temporary.path("."));
  const RunRecord written{.network = "a \"net\"\n",
                          .state = "failed",
                          .error = "step 3",
                          .batch = 64,
                          .steps = 900,
                          .steps_per_epoch = 300,
                          .state_bytes = 1,
                          .step_bytes = 2,
                          .options = {{"optimizer", "sgd"}, {"data-mean", "0.1,0.2"}},
                          .changes = {{.step = 3, .name = "batch", .before = "32", .after = "16"}},
                          .metrics = {{"l1", Better::kLess}, {"size", Better::kUnknown}}};
  ASSERT_TRUE(written.WriteTo(folder).ok());
  const absl::StatusOr<RunRecord> read = RunRecord::ReadFrom(folder);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->ToJson(), written.ToJson());
  EXPECT_EQ(read->options, written.options);
  EXPECT_EQ(read->changes, written.changes);
}

TEST(RunRecord, ChangesThatAreNoneAreRefused) {
  for (const char* changes :
       {"{}", "[1]", R"([{"step": -1}])", R"([{"step": 9007199254740993}])", R"([{"name": 3}])", "[{"}) {
    EXPECT_FALSE(RunRecord::Parse(absl::StrCat(R"({"changes": )", changes, "}")).ok()) << changes;
  }
  EXPECT_TRUE(RunRecord::Parse(R"({"changes": [{"step": 2, "name": "a", "why": [1]}, {}]})").ok());
}

TEST(RunRecord, ALaterVersionsIsRead) {
  const auto record = RunRecord::Parse(R"({"network": "n", "new": {"a": [1, null]}, "state": "paused", "batch": 3})");
  ASSERT_TRUE(record.ok()) << record.status().message();
  EXPECT_EQ(record->batch, 3);
  EXPECT_EQ(record->state, "paused");
}

TEST(RunRecord, WhichValuesOfAMetricAreBetterIsKnownByWhatItSaysOrElseByName) {
  const auto record =
      RunRecord::Parse(R"({"metrics": {"l1": "least", "accuracy": "unknown", "f1": "most", "new": "middle"}})");
  ASSERT_TRUE(record.ok()) << record.status().message();
  EXPECT_EQ(record->BetterOf("l1"), Better::kLess);
  EXPECT_EQ(record->BetterOf("accuracy"), Better::kUnknown);
  EXPECT_EQ(record->BetterOf("f1"), Better::kMore);
  EXPECT_EQ(record->BetterOf("new"), Better::kUnknown);
  EXPECT_EQ(record->BetterOf("loss"), Better::kLess);
  EXPECT_EQ(RunRecord().BetterOf("accuracy"), Better::kMore);
  EXPECT_EQ(RunRecord().BetterOf("l1"), Better::kUnknown);
  EXPECT_FALSE(RunRecord::Parse(R"({"metrics": {"l1": 3}})").ok());
}

TEST(RunRecord, NumbersThatNoTrainingHasAreRefused) {
  EXPECT_TRUE(RunRecord::Parse(R"({"state_bytes": 9007199254740992, "step_bytes": 9007199254740992})").ok());
  for (const char* number : {"9007199254740993", "9223372036854775807"}) {
    const auto record = RunRecord::Parse(absl::StrCat(R"({"state_bytes": )", number, "}"));
    EXPECT_NE(record.status().message().find(absl::StrCat("expected a number up to 2^53, found ", number)),
              absl::string_view::npos)
        << record.status().message();
  }
}

TEST(RunRecord, MoreOptionsThanThereAreFlagsAreRefused) {
  RunRecord record;
  for (int i = 0; i < 1000; ++i) record.options.emplace_back(absl::StrCat("o", i), "1");
  EXPECT_TRUE(RunRecord::Parse(record.ToJson()).ok());
  record.options.emplace_back("one more", "1");
  const auto read = RunRecord::Parse(record.ToJson());
  EXPECT_NE(read.status().message().find("expected at most 1000 options"), absl::string_view::npos)
      << read.status().message();
}

TEST(RunRecord, WhatIsNoneIsSaidWithItsPlace) {
  EXPECT_FALSE(RunRecord::Parse("").ok());
  EXPECT_EQ(RunRecord::Parse(R"({"batch": -1})").status().message(),
            "byte 10: expected a whole number, not negative, found '-'");
  const checkpoint::TemporaryFolder temporary;
  const RunFolder folder(temporary.path("."));
  EXPECT_TRUE(absl::IsNotFound(RunRecord::ReadFrom(folder).status()));
  std::ofstream(folder.record()) << std::string(2 << 20, ' ');
  EXPECT_TRUE(absl::IsInvalidArgument(RunRecord::ReadFrom(folder).status()));
}

}  // namespace
}  // namespace snug::core::runs
