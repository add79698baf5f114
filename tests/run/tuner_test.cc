// `snug tune`: what it chooses computes the same to rounding, and nothing is taken that was not measured to be faster.
#include "engine/run/observe/tuner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/prepare_context.h"
#include "tests/run/train_util.h"
#include "tests/testing/kernel_of.h"

namespace snug::core {
namespace {

constexpr int64_t kBatch = 4;

LoadedNetwork Lenet() {
  absl::StatusOr<LoadedNetwork> loaded = LoadModel("lenet");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return *std::move(loaded);
}

std::vector<double> ThreeLosses(const LoadedNetwork& network, const CompileOptions& options) {
  auto session = MakeSession(network, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? Losses(**session, 3) : std::vector<double>();
}

void ExpectRounded(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-4 * std::abs(b[i])) << "step " << i;
}

TEST(Tuner, ChoosesNothingThatWasNotMeasuredToBeFaster) {
  const LoadedNetwork network = Lenet();
  std::vector<std::string> lines;
  const absl::StatusOr<TuneReport> report = Tune(
      network.network, network.source_map, OpRegistry::Builtin(),
      {.compile = {.batch = kBatch, .threads = 2}, .threads = {1}, .seconds = 0, .progress = [&](const auto& line) {
         lines.push_back(line);
       }});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_FALSE(lines.empty());
  for (const TuneReport::Trial& trial : report->trials) {
    EXPECT_TRUE(!trial.taken || trial.ms < trial.best_ms) << trial.what;
  }
  for (const TuneReport::Kernel& kernel : report->kernels) {
    EXPECT_EQ(kernel.candidates[0].choice, "") << kernel.key;
    EXPECT_GT(kernel.candidates[0].ms, 0) << kernel.key;
    EXPECT_LE(kernel.candidates[kernel.chosen].ms, kernel.candidates[0].ms) << kernel.key;
  }
  const Tuning& tuning = report->tuning;
  if (!report->faster) {
    EXPECT_TRUE(tuning.kernels.empty() && tuning.disabled_passes.empty());
    EXPECT_EQ(tuning.threads, 2);
  }
  EXPECT_LE(tuning.tuned_step_ms, tuning.step_ms);
  CompileOptions tuned{.batch = kBatch, .threads = tuning.threads, .tuning = std::make_shared<const Tuning>(tuning)};
  tuned.disabled_passes = tuning.disabled_passes;
  ExpectRounded(ThreeLosses(network, tuned), ThreeLosses(network, {.batch = kBatch, .threads = 2}));
}

// Every candidate in turn, in whole trainings.
TEST(Tuner, EveryCandidateTrainsToTheSameLossesToRounding) {
  for (const char* model : {"lenet", "mlp"}) {
    const absl::StatusOr<LoadedNetwork> network = LoadModel(model);
    ASSERT_TRUE(network.ok()) << network.status().message();
    CompileOptions options{.batch = kBatch, .threads = 2, .list_choices = true};
    const std::vector<double> own = ThreeLosses(*network, options);
    const absl::StatusOr<Compiled> compiled =
        CompileGraph(network->network, network->source_map, OpRegistry::Builtin(), options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    size_t rounds = 0;
    for (const KernelChoice& kernel : compiled->kernels) rounds = std::max(rounds, kernel.offered.size());
    for (size_t round = 0; round < rounds; ++round) {
      Tuning tuning;
      for (const KernelChoice& kernel : compiled->kernels) {
        if (round < kernel.offered.size()) tuning.kernels[kernel.key].choice = kernel.offered[round];
      }
      options.tuning = std::make_shared<const Tuning>(std::move(tuning));
      SCOPED_TRACE(testing::Message() << model << ", round " << round);
      ExpectRounded(ThreeLosses(*network, options), own);
    }
  }
}

// A registry whose relu offers a kernel that cannot be built after all.
OpRegistry WithABrokenOffer() {
  OpRegistry registry;
  for (const OpDef* op : OpRegistry::Builtin().all()) {
    OpDef added = *op;
    if (op->name == "relu") {
      KernelRow plain = *op->plain();
      plain.variants = [](const PrepareContext&) { return std::vector<std::string>{"abacus"}; };
      plain.prepare = [](PrepareContext& c) {
        return c.choice() == "abacus" ? absl::UnimplementedError("no beads") : absl::OkStatus();
      };
      added = test::WithKernel(std::move(added), std::move(plain));
    }
    EXPECT_TRUE(registry.AddAll(OpRegistry::Builtin().file_of(op->name), {std::move(added)}).ok());
  }
  return registry;
}

TEST(Tuner, ACandidateThatCannotBeBuiltIsSaidAndNotTaken) {
  const absl::StatusOr<LoadedNetwork> network = LoadNetworkText(R"(
      input { name: "x" shape { dim: 8 } }
      layer { name: "y" input: "x" relu {} }
      layer { name: "loss" input: "y" reduce_sum {} }
      objective: "loss")",
                                                                "test");
  ASSERT_TRUE(network.ok()) << network.status().message();
  const OpRegistry registry = WithABrokenOffer();
  const absl::StatusOr<TuneReport> report =
      Tune(network->network, network->source_map, registry, {.compile = {.batch = kBatch, .threads = 1}, .seconds = 0});
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_EQ(report->kernels.size(), 1);
  const TuneReport::Kernel& kernel = report->kernels[0];
  ASSERT_EQ(kernel.candidates.size(), 2);
  EXPECT_EQ(kernel.candidates[1].choice, "abacus");
  EXPECT_NE(kernel.candidates[1].problem.find("no beads"), std::string::npos) << kernel.candidates[1].problem;
  EXPECT_EQ(kernel.chosen, 0);
}

TEST(Tuner, AMemoryLimitIsKept) {
  const LoadedNetwork network = Lenet();
  CompileOptions options{.batch = kBatch, .threads = 1};
  const absl::StatusOr<Compiled> own = Compile(network.network, network.source_map, OpRegistry::Builtin(), options);
  ASSERT_TRUE(own.ok()) << own.status().message();
  options.memory.memory_limit = own->executable.memory.total_bytes();
  const absl::StatusOr<TuneReport> report =
      Tune(network.network, network.source_map, OpRegistry::Builtin(), {.compile = options, .seconds = 0});
  ASSERT_TRUE(report.ok()) << report.status().message();
  options.tuning = std::make_shared<const Tuning>(report->tuning);
  options.disabled_passes = report->tuning.disabled_passes;
  EXPECT_TRUE(Compile(network.network, network.source_map, OpRegistry::Builtin(), options).ok());
}

}  // namespace
}  // namespace snug::core
