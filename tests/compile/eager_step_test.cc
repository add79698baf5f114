// What eager PyTorch would ask for in a step: small networks by hand, every op, every network of models/, and real
// steps as PyTorch 1.13 ran them.
#include "engine/compile/eager/eager_step.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "engine/compile/control/normal_form.h"
#include "engine/compile/eager/saved_tensors.h"
#include "engine/compile/import/import.h"
#include "memory/formats/formats.h"
#include "ops/registry.h"
#include "proto/text_loader.h"
#include "tests/memory/shared_data.h"
#include "tests/testing/source_path.h"

namespace snug::core {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

absl::StatusOr<memory::Requests> StepOf(const absl::StatusOr<LoadedNetwork>& loaded, const ImportOptions& options) {
  if (!loaded.ok()) return loaded.status();
  const absl::StatusOr<Imported> imported = Import(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  if (!imported.ok()) return imported.status();
  return EagerStep(imported->graph, imported->graph.variables(), options.training);
}

memory::Requests StepOfText(const std::string& text, bool training = true) {
  const absl::StatusOr<memory::Requests> requests =
      StepOf(LoadNetworkText(text, "test.pbtxt"), {.batch = 8, .training = training});
  EXPECT_TRUE(requests.ok()) << requests.status();
  return requests.ok() ? *requests : memory::Requests();
}

int64_t PeakOf(const memory::Requests& requests) {
  return memory::SimulateCachingAllocator(requests, 2).peak_requested_bytes;
}

std::map<std::string, memory::Buffer> ByName(const memory::Requests& requests) {
  std::map<std::string, memory::Buffer> buffers;
  for (const memory::Buffer& buffer : requests.step.buffers) buffers[buffer.name] = buffer;
  return buffers;
}

std::set<std::string> Names(const memory::Requests& requests) {
  std::set<std::string> names;
  for (const memory::Buffer& buffer : requests.step.buffers) names.insert(buffer.name);
  return names;
}

constexpr char kMlp[] = R"(name: "mlp"
input { name: "image" shape { dim: 784 } }
input { name: "label" dtype: INT32 }
layer { name: "fc1" input: "image" dense { units: 256 } }
layer { name: "act1" input: "fc1" relu {} }
layer { name: "out" input: "act1" dense { units: 10 } }
layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} }
objective: "loss"
)";

TEST(EagerStep, AnMlpTakesWhatItTakesByHand) {
  const memory::Requests requests = StepOfText(kMlp);
  const int64_t parameters = 4 * (784 * 256 + 256 + 256 * 10 + 10);
  EXPECT_EQ(std::accumulate(requests.resident.begin(), requests.resident.end(), int64_t{0}), parameters);
  // The peak is where the gradients of fc1 are made: all parameters' gradients, the image and d(fc1) are there, and the
  // loss, which the user has.
  const int64_t batch = 8;
  EXPECT_EQ(PeakOf(requests), 2 * parameters + batch * (784 + 256) * 4 + 4);
  // relu writes over fc1. The labels are int64.
  EXPECT_THAT(Names(requests), Not(Contains("act1")));
  EXPECT_EQ(ByName(requests).at("label").size_bytes, batch * 8);
}

TEST(EagerStep, ForwardOnlyKeepsNothing) {
  const memory::Requests requests = StepOfText(kMlp, /*training=*/false);
  const int64_t parameters = 4 * (784 * 256 + 256 + 256 * 10 + 10);
  EXPECT_EQ(PeakOf(requests), parameters + 8 * (784 + 256) * 4 + 8 * 8);  // the image, fc1 and the labels
}

TEST(EagerStep, WhatIsKeptForBackwardIsNotWrittenOver) {
  const memory::Requests requests = StepOfText(R"(
input { name: "x" shape { dim: 16 } }
input { name: "y" shape { dim: 16 } }
layer { name: "a" input: "x" dense { units: 16 } }
layer { name: "kept" input: "a" sigmoid {} }
layer { name: "b" input: "kept" relu {} }
layer { name: "c" input: "b" dense { units: 16 } }
layer { name: "d" input: "c" gelu {} }
layer { name: "loss" input: "d" input: "y" mean_squared_error {} }
objective: "loss"
)");
  EXPECT_THAT(Names(requests), Contains("b"));  // sigmoid keeps its output
  const auto buffers = ByName(requests);
  // gelu keeps its input, and nobody keeps a: it goes when sigmoid has run.
  EXPECT_EQ(buffers.at("a").last, buffers.at("kept").first);
  EXPECT_EQ(buffers.at("c").last, buffers.at("d(c)").first);
}

TEST(EagerStep, TheGradientOfASumIsPassedOnAndAddedUpInPlace) {
  const memory::Requests requests = StepOfText(R"(
input { name: "x" shape { dim: 16 } }
input { name: "y" shape { dim: 16 } }
layer { name: "a" input: "x" dense { units: 16 } }
layer { name: "b" input: "a" dense { units: 16 } }
layer { name: "sum" input: "a" input: "b" add {} }
layer { name: "loss" input: "sum" input: "y" mean_squared_error {} }
objective: "loss"
)");
  const auto buffers = ByName(requests);
  EXPECT_THAT(Names(requests), Not(Contains("sum")));  // over b: a has another reader
  EXPECT_THAT(Names(requests), Not(Contains("d(b)")));
  EXPECT_THAT(Names(requests), Not(Contains("d(a)/sum")));  // nobody else has d(sum) any more when d(a) is added to it
  EXPECT_EQ(buffers.at("d(a)").first, buffers.at("d(a)").last);
  EXPECT_GT(buffers.at("d(sum)").last, buffers.at("d(a)").first);
}

TEST(EagerStep, AViewKeepsTheBytesThatItShows) {
  const memory::Requests requests = StepOfText(R"(
input { name: "x" shape { dim: 16 } }
input { name: "y" shape { dim: 8 } }
layer { name: "a" input: "x" dense { units: 16 } }
layer { name: "parts" input: "a" split { axis: -1 parts: 2 } }
layer { name: "b" input: "parts:0" input: "parts:1" mul {} }
layer { name: "loss" input: "b" input: "y" mean_squared_error {} }
objective: "loss"
)");
  const auto buffers = ByName(requests);
  EXPECT_THAT(Names(requests), Not(Contains("parts")));
  EXPECT_EQ(buffers.at("a").last, buffers.at("d(parts)").first);  // mul keeps its factors
  EXPECT_EQ(buffers.at("d(a)").size_bytes, 8 * 16 * 4);           // the two parts' gradients, joined
}

TEST(EagerStep, WhatIsNotInFloat32IsSaid) {
  const absl::StatusOr<memory::Requests> requests =
      StepOf(LoadNetworkText(kMlp, "test.pbtxt"), {.batch = 8, .precision = DType::kFloat64});
  EXPECT_EQ(requests.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(requests.status().message()), HasSubstr("float64"));
}

TEST(SavedTensors, EveryOpWithAGradientIsThere) {
  const std::set<std::string> made_by_passes = {
      "packed_attention", "lstm_cell", "gru_cell", "gelu_with_side", "layer_norm_invertible", "max_pool_half_bytes"};
  for (const OpDef* op : OpRegistry::Builtin().all()) {
    if (op->gradient == nullptr || op->traits.without_nodes() || made_by_passes.contains(std::string(op->name)))
      continue;
    EXPECT_NE(FindEagerOp(op->name), nullptr) << op->name << ": say in saved_tensors.cc what PyTorch keeps of it";
  }
  EXPECT_EQ(FindEagerOp("no_such_op"), nullptr);
}

TEST(EagerStep, IsKnownOfEveryNetwork) {
  for (const auto& entry : std::filesystem::directory_iterator(test::SourcePath("models"))) {
    for (const bool training : {false, true}) {
      const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkFile(entry.path().string());
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      const absl::StatusOr<Imported> imported =
          Import(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.batch = 2, .training = training});
      ASSERT_TRUE(imported.ok()) << imported.status();
      const auto requests = EagerStep(imported->graph, imported->graph.variables(), training);
      if (HasControlFlow(imported->graph)) {
        EXPECT_THAT(std::string(requests.status().message()), HasSubstr("what PyTorch keeps of an op"));
        continue;
      }
      EXPECT_TRUE(requests.ok()) << entry.path() << ": " << requests.status();
    }
  }
}

// Training steps of seven networks as PyTorch 1.13 ran them, on a CPU and with the sum of the outputs as the loss: what
// was traced there and what is worked out here from the model file is nearly the same.
TEST(EagerStep, IsWhatPyTorchWasSeenToDo) {
  const std::string folder = memory::SharedData("olla/graphs/");
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "SKIPPED: no " << folder;
  const std::pair<const char*, const char*> networks[] = {
      {"alexnet", "alexnet"},        {"vgg", "vgg11"},
      {"resnet", "resnet18"},        {"resnet50", "resnet50"},
      {"mobilenet", "mobilenet_v2"}, {"squeezenet", "squeezenet1_0"},
      {"googlenet", "googlenet_aux"}};
  for (const auto& [traced, network] : networks) {
    for (const int64_t batch : {1, 32}) {
      const auto graph = memory::ReadGraphFile(absl::StrCat(folder, traced, "_b", batch, ".graph.gz"));
      ASSERT_TRUE(graph.ok()) << graph.status();
      const absl::StatusOr<memory::Requests> seen = memory::RequestsOf(graph->tasks);
      ASSERT_TRUE(seen.ok()) << seen.status();
      const auto worked_out =
          StepOf(LoadNetworkFile(test::SourcePath(absl::StrCat("models/", network, ".pbtxt"))), {.batch = batch});
      ASSERT_TRUE(worked_out.ok()) << worked_out.status();
      const memory::CachingStatistics there = memory::SimulateCachingAllocator(*seen, 4);
      const memory::CachingStatistics here = memory::SimulateCachingAllocator(*worked_out, 4);
      const auto ratio = [](int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); };
      EXPECT_NEAR(ratio(here.peak_requested_bytes, there.peak_requested_bytes), 1, 0.01) << network << " " << batch;
      EXPECT_NEAR(ratio(here.reserved_bytes, there.reserved_bytes), 1, 0.07) << network << " " << batch;
    }
  }
}

}  // namespace
}  // namespace snug::core
