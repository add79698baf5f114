// Every pass on or off: training agrees to rounding, and the fast kernels agree with the plain ones.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

struct PassesCase {
  const char* model;
  int64_t batch;
};

class PassesTest : public testing::TestWithParam<PassesCase> {
 protected:
  std::vector<double> Train(const CompileOptions& options) {
    const absl::StatusOr<LoadedNetwork> loaded = LoadModel(GetParam().model);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    if (!loaded.ok()) return {};
    auto session = MakeSession(*loaded, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    if (!session.ok()) return {};
    const auto [losses, is_new] = trained_.try_emplace(WhatRuns((*session)->compiled()));
    if (is_new) losses->second = Losses(**session, 3);
    return losses->second;
  }

  size_t trained() const { return trained_.size(); }

  static void ExpectNear(const std::vector<double>& a, const std::vector<double>& b, double relative,
                         const std::string& what) {
    ASSERT_EQ(a.size(), b.size()) << what;
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], relative * std::abs(b[i])) << what << ", step " << i;
  }

 private:
  // All nodes with their types, and the kernels that compute them.
  static std::string WhatRuns(const Compiled& compiled) {
    std::string text = ToText(compiled.graph);
    for (const NodeId id : compiled.graph.ProgramOrder()) {
      const KernelChoice& choice = compiled.kernels[static_cast<size_t>(id.index)];
      if (choice.kernel != nullptr) absl::StrAppend(&text, choice.Name(), "\n");
    }
    return text;
  }

  // Losses by what was run: many a pass leaves a network as it is, and it need not be trained again for that.
  std::map<std::string, std::vector<double>> trained_;
};

TEST_P(PassesTest, EachSwitchedOffAgreesToRoundingInDouble) {
  CompileOptions options{.batch = GetParam().batch,
                         .precision = DType::kFloat64,
                         .threads = 2,
                         .update_as_made = true,
                         .recompute_sweeps = true,
                         .gradients_from_outputs = true,
                         .loss_in_blocks = true,
                         .half_byte_indices = true};
  const std::vector<double> all = Train(options);
  for (const std::string& pass : PassNames()) {
    options.disabled_passes = {pass};
    ExpectNear(Train(options), all, 1e-11, "without " + pass);
  }
  for (const std::string& pass : PassNames()) options.disabled_passes.insert(pass);
  ExpectNear(Train(options), all, 1e-11, "without any pass");
  EXPECT_GT(trained(), 1U);
}

TEST_P(PassesTest, FastKernelsAgreeWithPlainOnesInFloat) {
  CompileOptions options{.batch = GetParam().batch, .threads = 2};
  const std::vector<double> fast = Train(options);
  options.plain_kernels = true;
  ExpectNear(fast, Train(options), 2e-4, "plain kernels");
  for (const std::string& pass : PassNames()) options.disabled_passes.insert(pass);
  options.plain_kernels = false;
  ExpectNear(fast, Train(options), 2e-4, "fast kernels, no pass");
}

TEST_P(PassesTest, Bfloat16StaysCloseToFloat) {
  CompileOptions options{.batch = GetParam().batch, .threads = 2};
  const std::vector<double> full = Train(options);
  options.precision = DType::kBFloat16;
  ExpectNear(Train(options), full, 0.05, "bfloat16");
}

INSTANTIATE_TEST_SUITE_P(Models, PassesTest,
                         testing::Values(PassesCase{"mlp", 8}, PassesCase{"lenet", 4}, PassesCase{"gpt_small", 1},
                                         PassesCase{"conv_zoo", 4}, PassesCase{"adversaries", 4}),
                         [](const auto& info) { return std::string(info.param.model); });

}  // namespace
}  // namespace snug::core
