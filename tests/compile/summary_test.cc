// What users are told of a network's size: which values count as data that flows.
#include "engine/compile/summary.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/compile/pipeline.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

int64_t ActivationBytes(const std::string& text, int64_t batch = 1, bool training = false) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "net");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  const absl::StatusOr<Compiled> compiled =
      CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.batch = batch, .training = training});
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return compiled.ok() ? compiled->summary.activation_bytes : -1;
}

constexpr char kWeights[] =
    "input { name: \"x\" shape { dim: 4 } }\n"
    "layer { name: \"w\" parameter { dim: [4] init { kind: NORMAL value: 1 } } }\n";

TEST(Summary, CountsEachValueOnce) {
  EXPECT_EQ(ActivationBytes(std::string(kWeights) + "layer { name: \"y\" input: [\"x\", \"w\"] mul {} } output: \"y\""),
            16);
}

TEST(Summary, LeavesOutWhatIsMadeOfWeightsAloneHoweverOften) {
  EXPECT_EQ(ActivationBytes(std::string(kWeights) + "layer { name: \"a\" input: \"w\" exp {} }\n"
                                                    "layer { name: \"b\" input: \"a\" sin {} }\n"
                                                    "layer { name: \"y\" input: [\"x\", \"b\"] mul {} } output: \"y\""),
            16);
}

// A state is a Variable where steps train, too, but what is made of it is data: a row for each sample.
TEST(Summary, CountsWhatIsMadeOfStates) {
  constexpr int64_t kBatch = 3, kRows = kBatch * 4 * sizeof(float);
  const std::string text = std::string(kWeights) +
                           "layer { name: \"h\" input: \"x\" state { dim: 4 next: \"next\" } }\n"
                           "layer { name: \"a\" input: \"h\" exp {} }\n"
                           "layer { name: \"b\" input: [\"a\", \"w\"] mul {} }\n"
                           "layer { name: \"next\" input: [\"b\", \"x\"] add {} }\n"
                           "layer { name: \"loss\" input: \"next\" reduce_mean {} } objective: \"loss\"";
  EXPECT_GE(ActivationBytes(text, kBatch, /*training=*/true), 3 * kRows);
}

}  // namespace
}  // namespace snug::core
