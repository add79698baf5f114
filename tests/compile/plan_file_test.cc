#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "engine/compile/memory/plan_memory.h"
#include "engine/compile/pipeline.h"
#include "engine/compile/summary.h"
#include "engine/graph/graph.h"
#include "memory/verifier.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

constexpr char kNet[] = R"(
  name: "small"
  input { name: "x" shape { dim: 6 } }
  input { name: "label" dtype: INT32 max_value: 5 }
  layer { name: "fc1" input: "x" dense { units: 32 } }
  layer { name: "act" input: "fc1" tanh {} }
  layer { name: "fc2" input: "act" dense { units: 5 } }
  layer { name: "loss" input: "fc2" input: "label" softmax_cross_entropy {} }
  objective: "loss"
)";

CompileOptions BestOptions() {
  CompileOptions options{.batch = 4, .plain_kernels = true};
  options.memory.strategy = "best";
  return options;
}

absl::StatusOr<Compiled> CompileText(const std::string& text, const CompileOptions& options) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  if (!loaded.ok()) return loaded.status();
  return Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
}

class PlanFileTest : public testing::TestWithParam<const char*> {
 protected:
  PlanFileTest() : path_(absl::StrCat(testing::TempDir(), "/plan_file_test_", getpid(), GetParam())) {}

  void Save(const CompileOptions& options) {
    const absl::StatusOr<Compiled> compiled = CompileText(kNet, options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    ASSERT_TRUE(SavePlan(*compiled, path_).ok());
  }

  // The error of compiling with the saved plan; empty: it went well.
  std::string ErrorWith(CompileOptions options, const std::string& net = kNet) {
    options.memory.plan_file = path_;
    return std::string(CompileText(net, options).status().message());
  }

  std::string path_;
};

TEST_P(PlanFileTest, IsThePlanThatWasSaved) {
  Save(BestOptions());
  CompileOptions options = BestOptions();
  const absl::StatusOr<Compiled> planned = CompileText(kNet, options);
  options.memory.plan_file = path_;
  options.memory.strategy = "none";  // nothing is planned
  const absl::StatusOr<Compiled> loaded = CompileText(kNet, options);
  ASSERT_TRUE(planned.ok() && loaded.ok()) << loaded.status().message();
  const MemoryPlan& a = planned->executable.memory;
  const MemoryPlan& b = loaded->executable.memory;
  EXPECT_EQ(b.strategy, "best");
  EXPECT_EQ(a.step.order, b.step.order);
  EXPECT_EQ(a.step.placement.plan.offsets, b.step.placement.plan.offsets);
  EXPECT_EQ(a.step.placement.plan.arena_bytes, b.step.placement.plan.arena_bytes);
  EXPECT_EQ(a.state_plan.offsets, b.state_plan.offsets);
  EXPECT_EQ(a.lower_bound(), b.lower_bound());
  EXPECT_EQ(a.proven(), b.proven());
  EXPECT_TRUE(memory::Verify(b.step.problem, b.step.placement.plan).ok());
}

TEST_P(PlanFileTest, IsRefusedForAnythingElseAndTheErrorNamesTheDifference) {
  Save(BestOptions());
  EXPECT_EQ(ErrorWith(BestOptions()), "");
  CompileOptions options = BestOptions();
  options.batch = 5;
  EXPECT_THAT(ErrorWith(options), HasSubstr("the plan is for another batch: 4, here it is 5"));
  options = BestOptions();
  options.training = false;
  EXPECT_THAT(ErrorWith(options), HasSubstr("another mode: training, here it is forward only"));
  options = BestOptions();
  options.threads = 2;
  EXPECT_THAT(ErrorWith(options), HasSubstr("another number of threads per op: 1, here it is 2"));
  options = BestOptions();
  options.precision = DType::kFloat64;
  EXPECT_THAT(ErrorWith(options), HasSubstr("another precision: float32, here it is float64"));
  options = BestOptions();
  options.keep_inputs = true;
  EXPECT_THAT(ErrorWith(options), HasSubstr("another treatment of inputs"));
  options = BestOptions();
  options.fetch = {"act"};
  EXPECT_THAT(ErrorWith(options), HasSubstr("another graph"));
#if SNUG_HAS_ONEDNN  // without it, these kernels take what the plain ones do
  options = BestOptions();
  options.plain_kernels = false;
  EXPECT_THAT(ErrorWith(options), HasSubstr("another"));
#endif
  EXPECT_THAT(ErrorWith(BestOptions(), absl::StrReplaceAll(kNet, {{"\"small\"", "\"other\""}})),
              HasSubstr("another network: small, here it is other"));
  EXPECT_THAT(ErrorWith(BestOptions(), absl::StrReplaceAll(kNet, {{"tanh", "sigmoid"}})), HasSubstr("another graph"));
}

TEST_P(PlanFileTest, AFileThatIsNoPlanIsSaid) {
  std::ofstream(path_) << "name: \"resnet\"";
  EXPECT_THAT(ErrorWith(BestOptions()), HasSubstr("not a plan in"));
  std::ofstream(path_) << "";
  EXPECT_THAT(ErrorWith(BestOptions()), HasSubstr("expected a plan, found an empty file"));
  path_ += "/not_there";
  EXPECT_THAT(ErrorWith(BestOptions()), HasSubstr("cannot be read"));
}

INSTANTIATE_TEST_SUITE_P(Forms, PlanFileTest, testing::Values(".pbtxt", ".txt", ".plan"),
                         [](const auto& info) { return std::string(info.param + 1); });

// A plan as text, changed by hand.
class ChangedPlanTest : public PlanFileTest {
 protected:
  std::string ErrorAfter(const std::string& from, const std::string& to) {
    Save(BestOptions());
    std::ifstream in(path_);
    std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " in " << text;
    text.replace(at, from.size(), to);
    std::ofstream(path_) << text;
    return ErrorWith(BestOptions());
  }
};

TEST_P(ChangedPlanTest, IsRefused) {
  EXPECT_THAT(ErrorAfter("device: \"cpu\"", "device: \"cuda\""),
              HasSubstr("the plan is for another device: cuda, here it is cpu"));
  EXPECT_THAT(ErrorAfter("alignment: 64", "alignment: 256"), HasSubstr("another alignment: 256, here it is 64"));
  EXPECT_THAT(ErrorAfter("first: 0", "first: 1"), HasSubstr("another buffer 0"));
  EXPECT_THAT(ErrorAfter("step_bytes: ", "step_bytes: 1"), HasSubstr("checksum"));
  EXPECT_THAT(ErrorAfter("node: \"fc1", "node: \"fc9"), HasSubstr("the plan runs node \"fc9"));
}

// Every buffer in turn, by one alignment and by one byte: it meets another one, or the checksum tells.
TEST_P(ChangedPlanTest, WithOneOffsetShiftedIsRefused) {
  Save(BestOptions());
  std::ifstream in(path_);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  int overlaps = 0;
  for (size_t at = text.find("offset: "); at != std::string::npos; at = text.find("offset: ", at + 1)) {
    const size_t begin = at + 8;
    const size_t end = text.find('\n', begin);
    const int64_t offset = std::stoll(text.substr(begin, end - begin));
    for (const int64_t shift : {1, 64}) {
      std::string changed = text;
      changed.replace(begin, end - begin, absl::StrCat(offset + shift));
      std::ofstream(path_) << changed;
      const std::string error = ErrorWith(BestOptions());
      EXPECT_NE(error, "") << "offset " << offset << " shifted by " << shift;
      overlaps += error.find("overlap") != std::string::npos;
    }
  }
  EXPECT_GT(overlaps, 0);
}

INSTANTIATE_TEST_SUITE_P(Text, ChangedPlanTest, testing::Values(".pbtxt"));

// Convolutions of several shapes, whose weights a library wants in formats of its own.
std::string ConvolutionsOf(int filters) {
  return absl::StrReplaceAll(R"(
    name: "convolutions"
    input { name: "x" shape { dim: 3 dim: 12 dim: 12 } }
    input { name: "label" dtype: INT32 max_value: 4 }
    layer { name: "conv1" input: "x" conv { filters: FILTERS kernel: 3 } }
    layer { name: "act" input: "conv1" relu {} }
    layer { name: "conv2" input: "act" conv { filters: FILTERS kernel: 5 stride: 2 } }
    layer { name: "pool" input: "conv2" global_avg_pool {} }
    layer { name: "fc" input: "pool" dense { units: 4 } }
    layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
    objective: "loss"
  )",
                             {{"FILTERS", absl::StrCat(filters)}});
}

// Stages, order, plan and the file of the plan.
std::string WhatBecomesOf(const std::string& text) {
  std::string all;
  CompileOptions options{.batch = 4};
  options.observer = [&](absl::string_view stage, const Graph& graph) {
    absl::StrAppend(&all, stage, "\n", ToText(graph));
  };
  const absl::StatusOr<Compiled> compiled = CompileText(text, options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  const std::string path = absl::StrCat(testing::TempDir(), "/history_", getpid(), ".plan");
  EXPECT_TRUE(SavePlan(*compiled, path).ok());
  std::ifstream file(path, std::ios::binary);
  absl::StrAppend(&all, OrderText(*compiled), PlanText(*compiled),
                  std::string(std::istreambuf_iterator<char>(file), {}));
  return all;
}

TEST(PlanFile, DependsOnNothingThatWasCompiledBefore) {
  const std::string one = ConvolutionsOf(32), other = ConvolutionsOf(48);
  const std::string first = WhatBecomesOf(one);
  const std::string second = WhatBecomesOf(other);
  EXPECT_EQ(WhatBecomesOf(other), second);
  EXPECT_EQ(WhatBecomesOf(one), first);
}

}  // namespace
}  // namespace snug::core
