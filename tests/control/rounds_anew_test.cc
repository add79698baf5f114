// Gradients of loops that compute rounds anew: the same numbers in chunks of any length, and less memory.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/control/control_run.h"
#include "tests/control/rolled_run.h"

namespace snug::core::test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

// Gradients compute rounds anew, in chunks: they are the same but for the association of sums, and the same to the bit
// whether the loops are rolled or not.
TEST(RolledLoops, RoundsAreComputedAnew) {
  const std::vector<std::string> gradients = {"x", "h", "c", "lstm.ih.weight", "lstm.hh.weight", "lstm.ih.bias"};
  std::vector<std::string> fetched = {"loss", "lstm:2"};
  for (const std::string& name : gradients) fetched.push_back(absl::StrCat("d(", name, ")"));
  for (const bool time_first : {false, true}) {
    SCOPED_TRACE(time_first);
    const std::string text = Lstm(4, 12, 16, time_first);
    CompileOptions options = InDouble(gradients);
    options.loops = LoopRule::kRolled;
    const std::vector<Numbers> kept = TrainTwoSteps(text, options, fetched);
    options.recompute_rounds = kSquareRoot;
    const std::vector<Numbers> anew = TrainTwoSteps(text, options, fetched);
    ASSERT_EQ(anew.size(), kept.size());
    for (size_t i = 0; i < kept.size(); ++i) EXPECT_THAT(anew[i], Pointwise(DoubleNear(1e-14), kept[i])) << i;
    options.loops = LoopRule::kUnrolled;
    options.disabled_passes = {"common_subexpressions"};  // which would merge the rounds with the first ones
    EXPECT_EQ(TrainTwoSteps(text, options, fetched), anew);
  }
}

// Chunks of any length: values and what flows back along the rounds have the bits of a loop that keeps everything, and
// everything has those of the straight line.
TEST(RolledLoops, TheLastChunkMayBeShorter) {
  const std::vector<std::string> along = {"x", "h", "c"},
                                 added_up = {"lstm.ih.weight", "lstm.hh.weight", "lstm.ih.bias"};
  std::vector<std::string> gradients = along, fetched = {"loss", "lstm:2"};
  gradients.insert(gradients.end(), added_up.begin(), added_up.end());
  for (const std::string& name : gradients) fetched.push_back(absl::StrCat("d(", name, ")"));
  const size_t same = 2 + along.size();  // the first of what is fetched
  for (const bool time_first : {false, true}) {
    for (const bool reverse : {false, true}) {
      std::string text = Lstm(4, 13, 16, time_first);
      if (reverse)
        text =
            absl::StrReplaceAll(text, {{"input: \"x\" axis: 0 }", "input: \"x\" axis: 0 reverse: true }"},
                                       {"scan { input: \"x\"  }", "scan { input: \"x\" reverse: true }"},
                                       {"collect { output: \"h_next\"", "collect { reverse: true output: \"h_next\""}});
      ASSERT_EQ(absl::StrReplaceAll(text, {{"reverse: true", ""}}) != text, reverse);
      // By plain kernels without passes, so that a product has the same bits in a row, whatever the number of rows.
      CompileOptions options = AsWritten(InDouble(gradients));
      options.loops = LoopRule::kRolled;
      const std::vector<Numbers> kept = TrainTwoSteps(text, options, fetched);
      for (const int64_t chunk : {kSquareRoot, int64_t{1}, int64_t{5}, int64_t{12}, int64_t{13}, int64_t{14}}) {
        SCOPED_TRACE(absl::StrCat("steps first: ", time_first, ", reverse: ", reverse, ", chunks of ", chunk));
        options.loops = LoopRule::kRolled;
        options.recompute_rounds = chunk;
        const std::vector<Numbers> anew = TrainTwoSteps(text, options, fetched);
        ASSERT_EQ(anew.size(), kept.size());
        for (size_t i = 0; i < kept.size(); ++i) {
          const bool exact = i < same;  // of the second step, whose parameters have other bits, nothing is
          EXPECT_THAT(anew[i], Pointwise(DoubleNear(exact ? 0 : 1e-14), kept[i])) << i;
        }
        options.loops = LoopRule::kUnrolled;
        EXPECT_EQ(TrainTwoSteps(text, options, fetched), anew);
        options.loops = LoopRule::kRolled;
        options.memory.streams = 2;
        EXPECT_EQ(TrainTwoSteps(text, options, fetched, ExecutorKind::kReplay), anew);
        options.memory.streams = 1;
      }
    }
  }
}

// With all passes and kernels, in chunks that end early, products of the slices of a chunk are done at once.
TEST(RolledLoops, WhatAChunkReadsIsMultipliedAtOnce) {
  const std::vector<std::string> gradients = {"x", "h", "c", "lstm.ih.weight", "lstm.hh.weight", "lstm.ih.bias"};
  std::vector<std::string> fetched = {"loss", "lstm:2"};
  for (const std::string& name : gradients) fetched.push_back(absl::StrCat("d(", name, ")"));
  for (const bool time_first : {false, true}) {
    SCOPED_TRACE(time_first);
    const std::string text = Lstm(4, 13, 16, time_first);
    const auto dense_in_a_round = [&](const std::set<std::string>& disabled) {
      CompileOptions options = InDouble(gradients);
      options.loops = LoopRule::kRolled;
      options.recompute_rounds = 5;
      options.disabled_passes = disabled;
      const absl::StatusOr<Graph> graph = GraphAfter(text, "13_normal_form", options);
      EXPECT_TRUE(graph.ok()) << graph.status().message();
      std::vector<int> counts;  // of the loop of chunks of 5, and of that of the last 3: in a chunk, and in a round
      for (const NodeId id : graph->ProgramOrder()) {
        if (graph->node(id).subgraphs.empty()) continue;
        const Graph* body = graph->node(id).subgraphs[0].get();
        for (int depth = 0; depth < 2; ++depth) {
          int count = 0;
          const Graph* inside = nullptr;
          for (const NodeId inner : body->ProgramOrder()) {
            count += body->node(inner).op == "dense" ? 1 : 0;
            if (!body->node(inner).subgraphs.empty()) inside = body->node(inner).subgraphs[0].get();
          }
          counts.push_back(count);
          body = inside;
        }
      }
      return counts;
    };
    EXPECT_THAT(dense_in_a_round({}), ElementsAre(1, 1, 1, 1));
    EXPECT_THAT(dense_in_a_round({"hoist_loop_inputs"}), ElementsAre(0, 2, 0, 2));

    CompileOptions options = InDouble(gradients);
    options.loops = LoopRule::kRolled;
    const std::vector<Numbers> kept = TrainTwoSteps(text, options, fetched);
    options.recompute_rounds = 5;
    const std::vector<Numbers> anew = TrainTwoSteps(text, options, fetched);
    ASSERT_EQ(anew.size(), kept.size());
    for (size_t i = 0; i < kept.size(); ++i) EXPECT_THAT(anew[i], Pointwise(DoubleNear(1e-14), kept[i])) << i;
    options.loops = LoopRule::kUnrolled;
    options.disabled_passes = {"common_subexpressions"};  // which would merge the rounds with the first ones
    EXPECT_EQ(TrainTwoSteps(text, options, fetched), anew);
    // The same bits as without it.
    CompileOptions plain = AsWritten(InDouble(gradients));
    plain.loops = LoopRule::kRolled;
    plain.recompute_rounds = 5;
    const std::vector<Numbers> in_rounds = TrainTwoSteps(text, plain, fetched);
    plain.disabled_passes.erase("hoist_loop_inputs");
    const std::vector<Numbers> before = TrainTwoSteps(text, plain, fetched);
    ASSERT_EQ(before.size(), in_rounds.size());
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(before[i], in_rounds[i]) << i;  // but sums over rounds
    for (size_t i = 5; i < before.size(); ++i) EXPECT_THAT(before[i], Pointwise(DoubleNear(1e-14), in_rounds[i])) << i;
  }
}

TEST(RolledLoops, ComputingRoundsAnewTakesLessMemory) {
  const std::string text = Lstm(16, 900, 64, /*time_first=*/true);
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  ASSERT_TRUE(loaded.ok());
  const auto compile = [&](int64_t recompute) {
    absl::StatusOr<Compiled> compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                                                {.training = true, .recompute_rounds = recompute});
    EXPECT_TRUE(compiled.ok()) << compiled.status().message();
    return *std::move(compiled);
  };
  const Compiled kept = compile(0), anew = compile(kSquareRoot);
  ASSERT_EQ(anew.loops.size(), 1);
  EXPECT_EQ(anew.loops[0].chunk, 30);
  // What is stashed are the 4 gates and 2 values of each step, beside a few sequences. Where all is kept the loop is a
  // straight line, whose gates lie where the product of all inputs was, and their gradients, too.
  EXPECT_LT(2 * anew.planned_bytes(), kept.planned_bytes());
  // A prime number of steps takes no more, but for the gradient of weights of a second loop.
  const std::string prime = Lstm(16, 907, 64, /*time_first=*/true);
  const absl::StatusOr<LoadedNetwork> of_prime = LoadNetworkText(prime, "test");
  ASSERT_TRUE(of_prime.ok());
  const absl::StatusOr<Compiled> odd = Compile(of_prime->network, of_prime->source_map, OpRegistry::Builtin(),
                                               {.training = true, .recompute_rounds = kSquareRoot});
  ASSERT_TRUE(odd.ok()) << odd.status().message();
  EXPECT_EQ(odd->loops[0].chunk, 30);
  const int64_t weights = 2 * 64 * 256 * 4;
  EXPECT_LE(odd->planned_bytes(), anew.planned_bytes() * 907 / 900 + 2 * weights);
}

}  // namespace
}  // namespace snug::core::test
