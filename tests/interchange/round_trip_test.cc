// What is exported and imported again computes the same; and what ONNX cannot express is listed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "engine/base/status.h"
#include "engine/compile/import/import.h"
#include "engine/compile/pipeline.h"
#include "engine/run/session/session.h"
#include "interchange/export/export.h"
#include "interchange/onnx.pb.h"
#include "ops/registry.h"
#include "proto/network.pb.h"
#include "proto/text_loader.h"
#include "tests/interchange/onnx_text.h"
#include "tests/testing/source_path.h"

namespace snug::core::onnx {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

std::vector<Fed> FeedsFor(const proto::Network& network, int64_t batch) {
  std::vector<Fed> feeds;
  for (const proto::Input& input : network.input()) {
    int64_t count = batch;
    for (const int64_t dim : input.shape().dim()) count *= dim;
    Fed fed{input.name(), {}};
    for (int64_t i = 0; i < count; ++i) {
      fed.values.push_back(input.dtype() == proto::FLOAT
                               ? std::sin(static_cast<double>(i) * 0.77) * 1.5
                               : static_cast<double>(i * 5 % std::max<int64_t>(input.max_value(), 1)));
    }
    feeds.push_back(std::move(fed));
  }
  return feeds;
}

TEST(OnnxRoundTrip, EveryLayerComputesTheSame) {
  const auto loaded = LoadNetworkFile(test::SourcePath("tests/interchange/every_layer.pbtxt"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  constexpr int64_t kBatch = 3;
  absl::StatusOr<Compiled> compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                                              {.batch = kBatch, .training = false, .keep_inputs = true});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto session = Session::Create(*std::move(compiled), {.seed = 5});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto content = [&](const std::string& name) -> absl::StatusOr<std::vector<float>> {
    SNUG_ASSIGN_OR_RETURN(const std::vector<double> values, (*session)->GetVariable(name));
    return std::vector<float>(values.begin(), values.end());
  };
  const absl::StatusOr<std::string> bytes = ExportModel(loaded->network, loaded->source_map, {}, content);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const absl::StatusOr<ImportedModel> imported = ImportBytes(*bytes);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_GT(imported->outputs.size(), 100U);

  const std::vector<Fed> feeds = FeedsFor(loaded->network, kBatch);
  for (const Fed& fed : feeds) SNUG_CHECK_OK((*session)->Feed(fed.name, fed.values));
  SNUG_CHECK_OK((*session)->Run());
  absl::StatusOr<Compiled> again = Compile(*imported->network, SourceMap("imported"), OpRegistry::Builtin(),
                                           {.batch = kBatch, .training = false, .keep_inputs = true});
  ASSERT_TRUE(again.ok()) << again.status();
  const auto copy = Session::Create(*std::move(again), {});
  ASSERT_TRUE(copy.ok()) << copy.status();
  for (const auto& [name, tensor] : imported->weights) {
    SNUG_CHECK_OK((*copy)->SetVariable(name, std::vector<double>(tensor.floats().begin(), tensor.floats().end())));
  }
  for (const Fed& fed : feeds) SNUG_CHECK_OK((*copy)->Feed(fed.name, fed.values));
  SNUG_CHECK_OK((*copy)->Run());
  const std::vector<std::string> names = ExportedOutputs(loaded->network, loaded->source_map, {}).value();
  ASSERT_EQ(names.size(), imported->outputs.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const auto expected = (*session)->Fetch(names[i]);
    const auto found = (*copy)->Fetch(imported->outputs[i].second);
    ASSERT_TRUE(expected.ok() && found.ok()) << names[i];
    EXPECT_THAT(*found, Pointwise(DoubleNear(2e-5), *expected)) << names[i];
  }
}

absl::StatusOr<std::string> Exported(const std::string& text, const ExportOptions& options = {}) {
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkText(text, "net.pbtxt"));
  const auto zeros = [](const std::string&) { return std::vector<float>(6, 0); };
  return ExportModel(loaded.network, loaded.source_map, options, zeros);
}

TEST(ExportOnnx, WhatCannotBeExpressedIsListedByNode) {
  const absl::Status status = Exported(R"(
    input { name: "x" shape { dim: [2, 7, 7] } }
    input { name: "y" shape { dim: 3 } dtype: INT32 max_value: 2 }
    layer { name: "pool" input: "x" adaptive_max_pool { size: 3 } }
    layer { name: "loss" input: "x" input: "x" mean_squared_error {} }
    layer { name: "padded" input: "y" pad { axis: 1 before: 1 after: 0 } }
    layer { name: "even" input: "x" local_response_norm { size: 2 } }
  )",
                                       {.fetch = {"pool", "loss", "padded", "even"}, .file = "net.pbtxt"})
                                  .status();
  EXPECT_EQ(status.message(),
            "net.pbtxt: 4 things cannot be expressed in ONNX:\n"
            "  node \"pool\" (adaptive_max_pool): has windows of several sizes, from [7, 7] to [3, 3]\n"
            "  node \"loss\" (mean_squared_error): this op is not exported\n"
            "  node \"padded\" (pad): pads integers\n"
            "  node \"even\" (local_response_norm): is of 2 channels, and LRN of an odd number");
}

TEST(ExportOnnx, TheScoresThatALossReadsAreTheOutputs) {
  const auto loaded = LoadNetworkFile(test::SourcePath("models/resnet18.pbtxt"));
  ASSERT_TRUE(loaded.ok());
  EXPECT_THAT(ExportedOutputs(loaded->network, loaded->source_map, {}).value(), ElementsAre("fc"));
  EXPECT_THAT(std::string(Exported("input { name: \"x\" } layer { name: \"y\" input: \"x\" relu {} }", {.fetch = {"z"}})
                              .status()
                              .message()),
              HasSubstr("--fetch=z: the network has no value of that name"));
}

TEST(ExportOnnx, EveryModelOfOursCanBe) {
  constexpr int64_t kMostNumbers = 40'000'000;  // the larger ones are the campaign's, tests/interchange/peer
  int exported = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::SourcePath("models"))) {
    if (entry.path().extension() != ".pbtxt") continue;
    const auto loaded = LoadNetworkFile(entry.path());
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const auto imported = Import(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.training = false});
    ASSERT_TRUE(imported.ok()) << imported.status();
    std::map<std::string, int64_t> sizes;
    int64_t numbers = 0;
    for (const Variable& variable : imported->graph.variables()) {
      sizes[variable.name] = variable.type.shape.num_elements();
      numbers += sizes[variable.name];
    }
    if (numbers > kMostNumbers) continue;
    const auto zeros = [&](const std::string& name) { return std::vector<float>(static_cast<size_t>(sizes.at(name))); };
    const auto bytes = ExportModel(loaded->network, loaded->source_map, {}, zeros);
    EXPECT_TRUE(bytes.ok()) << entry.path() << ": " << bytes.status();
    ++exported;
  }
  EXPECT_GT(exported, 25);
}

TEST(ExportOnnx, WhatABranchPutsOutIsComputedUnderItsName) {
  const std::string network = R"(
    block { name: "as_is" input: "x" layer { name: "a" input: "$x" relu {} } }
    block { name: "other" input: "x" layer { name: "b" input: "$x" tanh {} } }
    input { name: "which" shape {} dtype: INT32 max_value: 1 }
    input { name: "x" shape { dim: 3 } }
    input { name: "y" shape { dim: 3 } }
    layer { name: "f" input: "which" input: "x" branch { body: "as_is" body: "other" } }
    layer { name: "loss" input: "f" input: "y" mean_squared_error {} }
    objective: "loss"
  )";
  const auto loaded = LoadNetworkText(network, "net.pbtxt");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(ExportedOutputs(loaded->network, loaded->source_map, {}).value(), ElementsAre("f"));
  for (const std::vector<std::string>& fetch : {std::vector<std::string>{}, std::vector<std::string>{"f"}}) {
    const absl::StatusOr<std::string> bytes = Exported(network, {.fetch = fetch});
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    proto::onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromString(*bytes));
    ASSERT_EQ(model.graph().output_size(), 1);
    EXPECT_EQ(model.graph().output(0).name(), "f");
    ASSERT_GT(model.graph().node_size(), 0);
    const auto& last = model.graph().node(model.graph().node_size() - 1);
    EXPECT_THAT(last.output(), ElementsAre("f"));
  }
  EXPECT_THAT(std::string(Exported(network, {.fetch = {"x"}}).status().message()), HasSubstr("x: is not computed"));
}

TEST(ExportOnnx, AValueIsPutOutUnderEachOfItsNames) {
  const std::string network = R"(
    block {
      name: "cell" input: "h" input: "g"
      layer { name: "sum" input: "$h" input: "$g" add {} }
      layer { name: "next" input: "sum" tanh {} }
      output: "next"
    }
    input { name: "x" shape { dim: 3 } }
    layer { name: "h" input: "x" relu {} }
    layer { name: "both" input: "h" input: "x"
            loop { body: "cell" times: 2 carry { input: "h" output: "next" } carry { input: "g" output: "next" } } }
    output: "both"
    output: "both:1"
  )";
  const std::vector<std::vector<std::string>> fetched = {{}, {"both", "both:1"}, {"both:1", "both"}};
  for (const std::vector<std::string>& fetch : fetched) {
    const absl::StatusOr<std::string> bytes = Exported(network, {.fetch = fetch});
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    proto::onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromString(*bytes));
    std::vector<std::string> names, made;
    for (const auto& output : model.graph().output()) names.push_back(output.name());
    for (const auto& node : model.graph().node()) made.insert(made.end(), node.output().begin(), node.output().end());
    EXPECT_EQ(names, fetch.empty() ? fetched[1] : fetch);
    for (const std::string& name : names) EXPECT_EQ(std::count(made.begin(), made.end(), name), 1) << name;
  }
}

TEST(ExportOnnx, SamplesThatAreJoinedWithOthersNeedTheirNumber) {
  const std::string input = R"(
    input { name: "x" shape { dim: 2 } }
    layer { name: "rows" input: "x" relu {} }
  )";
  const std::string concat = input + R"(
    layer { name: "more" parameter { dim: [3, 2] } }
    layer { name: "all" input: "rows" input: "more" concat { axis: 0 } }
    layer { name: "apart" input: "all" reshape { dim: [2, 1] } }
    output: "apart"
  )";
  const std::string pad = input + R"(
    layer { name: "all" input: "rows" pad { axis: 0 before: 2 after: 1 } }
    output: "all"
  )";
  for (const std::string& network : {concat, pad}) {
    EXPECT_THAT(std::string(Exported(network, {}).status().message()),
                HasSubstr(": 1 thing cannot be expressed in ONNX:\n  node \"all\""));
    EXPECT_THAT(std::string(Exported(network, {}).status().message()),
                HasSubstr("joins samples with what there is once: say --batch=N"));
    EXPECT_TRUE(Exported(network, {.batch = 3}).ok());
  }
  const std::string twice = input + R"(
    layer { name: "all" input: "rows" input: "x" concat { axis: 0 } }
    output: "all"
  )";
  EXPECT_TRUE(Exported(twice, {}).ok()) << "what comes of samples alone is twice as many";
}

}  // namespace
}  // namespace snug::core::onnx
