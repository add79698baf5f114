#include "engine/base/status.h"

#include <gtest/gtest.h>

#include <memory>

#include "engine/base/error_part.h"

namespace snug::core {
namespace {

absl::StatusOr<std::unique_ptr<int>> Half(int value) {
  if (value % 2 != 0) return absl::InvalidArgumentError("odd");
  return std::make_unique<int>(value / 2);
}

absl::StatusOr<int> Quarter(int value) {
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<int> half, Half(value));  // what only moves
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<int> quarter, Half(*half));
  return *quarter;
}

absl::Status Check(int value) {
  SNUG_RETURN_IF_ERROR(Quarter(value));  // a StatusOr
  SNUG_RETURN_IF_ERROR(absl::OkStatus());
  return absl::NotFoundError("reached the end");
}

TEST(Status, MacrosPassErrorsOnAndValuesThrough) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status(), absl::InvalidArgumentError("odd"));
  EXPECT_EQ(Check(6), absl::InvalidArgumentError("odd"));
  EXPECT_EQ(Check(4), absl::NotFoundError("reached the end"));
}

TEST(Status, AnnotateKeepsTheCode) {
  EXPECT_EQ(Annotate(absl::NotFoundError("b"), "a"), absl::NotFoundError("a: b"));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "a").ok());
}

TEST(Status, AnnotateKeepsThePartThatTheErrorIsAbout) {
  const ErrorPart input = {.kind = ErrorPart::Kind::kInput, .index = 12};
  const ErrorPart option = {.kind = ErrorPart::Kind::kOption, .name = "axis"};
  EXPECT_EQ(PartOf(Annotate(About(input, absl::NotFoundError("b")), "a")), input);
  EXPECT_EQ(PartOf(Annotate(OptionError("axis", "b"), "a")), option);
  EXPECT_EQ(Annotate(OptionError("axis", "b"), "a").message(), "a: option \"axis\": b");
  EXPECT_EQ(PartOf(absl::InvalidArgumentError("option \"axis\": b")), std::nullopt);
  EXPECT_TRUE(About(input, absl::OkStatus()).ok());
}

TEST(Status, ChecksAreStatementsOfTheirOwn) {
  int reached = 0;
  if (reached == 0)
    SNUG_CHECK_OK(absl::OkStatus());
  else
    reached = 1;
  SNUG_CHECK(reached == 0);
  SNUG_CHECK_OK(Half(2));
}

TEST(StatusDeathTest, ChecksNameTheConditionAndTheMessage) {
  EXPECT_DEATH(SNUG_CHECK(1 == 2), "internal error: 1 == 2");
  EXPECT_DEATH(SNUG_CHECK_MSG(1 == 2, "why"), "1 == 2: why");
  EXPECT_DEATH(SNUG_CHECK_OK(Half(1)), "Half\\(1\\): odd");
}

}  // namespace
}  // namespace snug::core
