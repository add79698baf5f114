#include "proto/text_loader.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/testing/source_path.h"

namespace snug {
namespace {

LoadedNetwork Load(absl::string_view text) {
  absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "net.pbtxt");
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? *std::move(loaded) : LoadedNetwork();
}

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

}  // namespace
}  // namespace snug
