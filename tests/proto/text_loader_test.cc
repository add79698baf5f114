#include "proto/text_loader.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "proto/network_writer.h"
#include "tests/proto/load_text.h"
#include "tests/proto/random_network.h"
#include "tests/testing/source_path.h"

namespace snug::core {
namespace {

TEST(TextLoader, EveryModelLoads) {
  for (const char* model : {"mlp", "mlp_big", "lenet", "resnet18", "resnet50", "mobilenet_v2", "gpt_small"}) {
    const auto loaded = LoadNetworkFile(test::SourcePath("models/") + model + ".pbtxt");
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->network.name(), model);
  }
}

TEST(TextLoader, KnowsWhereThingsStand) {
  const LoadedNetwork loaded = Load(
      "input { name: \"x\" shape { dim: 4 } }\n"
      "layer {\n"
      "  name: \"fc\"\n"
      "  input: \"x\"\n"
      "  dense { units: 3 }\n"
      "  param { name: \"weight\" frozen: true }\n"
      "}\n"
      "objective: \"fc\"\n");
  const SourceMap& map = loaded.source_map;
  EXPECT_EQ(map.InputLoc(0).ToString(), "net.pbtxt:1:1");
  EXPECT_EQ(map.LayerLoc(0).ToString(), "net.pbtxt:2:1");
  EXPECT_EQ(map.LayerInputLoc(0, 0).ToString(), "net.pbtxt:4:10");
  EXPECT_EQ(map.LayerOpLoc(0).ToString(), "net.pbtxt:5:3");
  EXPECT_EQ(map.LayerOptionLoc(0, "units").ToString(), "net.pbtxt:5:18");
  EXPECT_EQ(map.ParamLoc(0, 0).ToString(), "net.pbtxt:6:3");
  EXPECT_EQ(map.ParamLoc(0, 0, "frozen").ToString(), "net.pbtxt:6:34");
  EXPECT_EQ(map.ObjectiveLoc(0).ToString(), "net.pbtxt:8:12");
  // What is not known falls back to what encloses it.
  EXPECT_EQ(map.LayerInputLoc(0, 7).ToString(), "net.pbtxt:2:1");
  EXPECT_EQ(map.LayerOptionLoc(0, "bias").ToString(), "net.pbtxt:5:3");
  EXPECT_EQ(map.OutputLoc(0).ToString(), "net.pbtxt");
}

// A field within a layer that began further to the right than the field stands is no sign of a missing brace.
TEST(TextLoader, LinesMayBreakAnywhere) {
  const LoadedNetwork loaded = Load(
      "block { name: \"cell\" input: [\"x\", \"h\"] layer { name: \"sum\" input: [\"$x\", \"$h\"] add {} } }\n"
      "input { name: \"x\" shape { dim: [2, 3] } } input { name: \"h\" shape { dim: 3 } }\n"
      "                                  layer { name: \"first\" input: [\"x\", \"h\"] loop { body: \"cell\"\n"
      "scan { input: \"x\" } carry { input: \"h\" output: \"sum\" } } }\n"
      "objective: \"first\"\n");
  ASSERT_EQ(loaded.network.layer_size(), 1);
  EXPECT_EQ(loaded.network.layer(0).loop().carry(0).output(), "sum");
}

// What protobuf prints, with its own habits, is read here as protobuf reads it.
TEST(TextLoader, ReadsFlatFilesAsProtobufDoes) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    proto::Network network = testing::RandomNetwork(seed);
    network.clear_name();  // a "$" in a string is ours alone
    if (network.has_optimizer()) network.mutable_optimizer()->clear_state();
    for (auto* layers : {network.mutable_layer(), network.mutable_subnetwork(0)->mutable_layer()}) {
      for (proto::Layer& layer : *layers) {
        layer.clear_param();
        if (layer.has_state()) layer.mutable_state()->clear_next();
      }
    }
    for (const bool single_line : {false, true}) {
      google::protobuf::TextFormat::Printer printer;
      printer.SetSingleLineMode(single_line);
      printer.SetUseShortRepeatedPrimitives(seed % 2 == 0);
      std::string text;
      ASSERT_TRUE(printer.PrintToString(network, &text));
      const auto loaded = LoadNetworkText(text, "net.pbtxt");
      ASSERT_TRUE(loaded.ok()) << "seed " << seed << "\n" << loaded.status() << "\n" << text;
      ASSERT_EQ(WriteNetworkBinary(loaded->network), WriteNetworkBinary(network)) << "seed " << seed << "\n" << text;
    }
  }
}

}  // namespace
}  // namespace snug::core
