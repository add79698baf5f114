#include "ops/infer_context.h"

#include <gtest/gtest.h>

#include "engine/base/error_part.h"

namespace snug::core {
namespace {

class InferContextTest : public ::testing::Test {
 protected:
  InferContextTest() {
    types_.inputs = {{DType::kFloat32, {2, 3}}, {DType::kFloat32, {4}}, {}};
    types_.present = {true, true, false};
  }
  NodeTypes types_;
  std::vector<std::string> names_ = {"x", "more"};
  InferContext context_{&types_, names_};
};

TEST_F(InferContextTest, SeesInputs) {
  EXPECT_EQ(context_.num_inputs(), 3);
  EXPECT_TRUE(context_.has_input(1));
  EXPECT_FALSE(context_.has_input(2));
  EXPECT_FALSE(context_.has_input(3));
  EXPECT_EQ(context_.shape(0), Shape({2, 3}));
}

TEST_F(InferContextTest, ErrorsNameTheInputTheOptionAndTheShape) {
  const absl::Status error = context_.InputError(0, "why");
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error.message(), "input 0 \"x\" [2, 3]: why");
  EXPECT_EQ(PartOf(error), (ErrorPart{.kind = ErrorPart::Kind::kInput, .index = 0}));
  EXPECT_EQ(context_.InputError(1, "why").message(), "input 1 \"more\" [4]: why");
  EXPECT_EQ(context_.InputError(2, "why").message(), "input 2 \"more\" []: why");  // a variadic port repeats
  EXPECT_EQ(context_.OptionError("axis", "why"), OptionError("axis", "why"));
}

TEST_F(InferContextTest, ChecksRanksAndShapes) {
  EXPECT_TRUE(context_.CheckRank(0, 2, 2).ok());
  EXPECT_TRUE(context_.CheckRank(0, 1, 3).ok());
  EXPECT_EQ(context_.CheckRank(1, 2, 4).message(),
            "input 1 \"more\" [4]: expected 2 to 4 dimensions (batch first), found 1");
  EXPECT_EQ(context_.CheckRank(0, 4, 4).message(),
            "input 0 \"x\" [2, 3]: expected 4 dimensions (batch first), found 2");
  EXPECT_TRUE(context_.CheckShape(1, {4}).ok());
  EXPECT_EQ(context_.CheckShape(1, {5}).message(), "input 1 \"more\" [4]: expected shape [5]");
}

TEST_F(InferContextTest, SetsOutputsInAnyOrder) {
  context_.SetOutput(1, DType::kInt32, {7});
  context_.SetOutput(0, context_.input(0));
  ASSERT_EQ(types_.num_outputs(), 2);
  EXPECT_EQ(types_.output(0), types_.input(0));
  EXPECT_EQ(types_.output(1).ToString(), "int32[7]");
}

}  // namespace
}  // namespace snug::core
