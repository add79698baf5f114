#include "tools/runs/run_record.h"

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
                          .options = {{"optimizer", "sgd"}, {"data-mean", "0.1,0.2"}}};
  ASSERT_TRUE(written.WriteTo(folder).ok());
  const absl::StatusOr<RunRecord> read = RunRecord::ReadFrom(folder);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->ToJson(), written.ToJson());
  EXPECT_EQ(read->options, written.options);
}

TEST(RunRecord, ALaterVersionsIsRead) {
  const auto record = RunRecord::Parse(R"({"network": "n", "new": {"a": [1, null]}, "state": "paused", "batch": 3})");
  ASSERT_TRUE(record.ok()) << record.status().message();
  EXPECT_EQ(record->batch, 3);
  EXPECT_EQ(record->state, "paused");
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
