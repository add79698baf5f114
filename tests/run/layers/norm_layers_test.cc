// Layers that normalise, as a model file has them: their parameters, and instance_norm, which is group_norm.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::Pointwise;

// A batch of two samples with two channels of two numbers; the objective weighs them, so that gradients are not 0.
absl::StatusOr<std::unique_ptr<Session>> MakeNorm(const std::string& norm, const std::string& shape = "2, 2",
                                                  std::vector<std::string> gradients = {}) {
  auto session = MakeSession(absl::StrCat(R"(
      input { name: "x" shape { dim: [)",
                                          shape, R"(] } }
      input { name: "weights" shape { dim: [)",
                                          shape, R"(] } }
      layer { name: "norm" input: "x" )",
                                          norm, R"( }
      layer { name: "weighed" input: "norm" input: "weights" mul {} }
      layer { name: "loss" input: "weighed" reduce_sum {} }
      objective: "loss")"),
                             {.batch = 2, .precision = DType::kFloat64, .fetch = {"norm"}, .gradients = gradients});
  if (!session.ok() || shape != "2, 2") return session;
  EXPECT_TRUE((*session)->Feed("x", {1, 3, 5, 5.5, 3, 1, -2, 6}).ok());
  EXPECT_TRUE((*session)->Feed("weights", {1, 2, 3, 4, 5, 6, 7, 8}).ok());
  EXPECT_TRUE((*session)->Run().ok());
  return session;
}

std::string Error(const std::string& norm, const std::string& shape) {
  return std::string(MakeNorm(norm, shape).status().message());
}

TEST(NormLayers, InstanceNormHasNoParametersUnlessAsked) {
  const auto session = MakeNorm("instance_norm { epsilon: 0 }");
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_THAT(*(*session)->Fetch("norm"), Pointwise(DoubleNear(1e-12), {-1, 1, -1, 1, 1, -1, -1, 1}));
  EXPECT_FALSE((*session)->GetVariable("norm.weight").ok());
}

TEST(NormLayers, InstanceNormIsGroupNormWithAGroupForEachChannel) {
  const std::vector<std::string> gradients = {"x", "norm.weight", "norm.bias"};
  const auto instance = MakeNorm("instance_norm { affine: true }", "2, 2", gradients);
  const auto group = MakeNorm("group_norm { groups: 2 }", "2, 2", gradients);
  ASSERT_TRUE(instance.ok()) << instance.status().message();
  ASSERT_TRUE(group.ok()) << group.status().message();
  EXPECT_EQ(*(*instance)->Fetch("norm"), *(*group)->Fetch("norm"));
  for (const std::string& name : gradients) {
    EXPECT_EQ(*(*instance)->Fetch(absl::StrCat("d(", name, ")")), *(*group)->Fetch(absl::StrCat("d(", name, ")")));
  }
  EXPECT_THAT(*(*group)->Fetch("d(norm.bias)"), Pointwise(DoubleNear(1e-12), {1 + 2 + 5 + 6, 3 + 4 + 7 + 8}));
}

TEST(NormLayers, InstanceNormWantsSeveralElementsInAChannel) {
  for (const char* shape : {"3", "3, 1", "3, 1, 1"}) {
    EXPECT_THAT(Error("instance_norm {}", shape),
                HasSubstr("expected more than one element in each channel of a sample"));
  }
  EXPECT_THAT(Error("instance_norm { epsilon: -1 }", "3, 4"),
              HasSubstr("option \"epsilon\": expected at least 0, found -1"));
}

TEST(NormLayers, HaveTheParametersOfTheirChannelsOrRows) {
  const auto group = MakeNorm("group_norm { groups: 1 }");
  ASSERT_TRUE(group.ok()) << group.status().message();
  EXPECT_EQ((*group)->GetVariable("norm.weight")->size(), 2u);
  EXPECT_EQ((*group)->FindVariable("norm.weight")->type->shape, Shape({2}));
  const auto rms = MakeNorm("rms_norm { epsilon: 0 axes: 2 }", "2, 2", {"norm.weight"});
  ASSERT_TRUE(rms.ok()) << rms.status().message();
  EXPECT_EQ((*rms)->FindVariable("norm.weight")->type->shape, Shape({2, 2}));
  EXPECT_FALSE((*rms)->GetVariable("norm.bias").ok());
  EXPECT_FALSE((*MakeNorm("rms_norm { affine: false }"))->GetVariable("norm.weight").ok());
}

}  // namespace
}  // namespace snug::core
