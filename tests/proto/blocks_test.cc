// Blocks, repeats, arguments: what they expand to, as the writer shows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "proto/network_writer.h"
#include "proto/text_loader.h"
#include "tests/proto/load_text.h"

namespace snug::core {
namespace {

using ::testing::HasSubstr;

// The layers and what comes after them, written flat.
std::string Flat(absl::string_view text) {
  const std::string all = WriteNetworkText(Load(text).network);
  return all.substr(all.find("layer"));
}

constexpr char kUnit[] = R"(
input { name: "x" shape { dim: 4 } }
block {
  name: "unit"
  arg: "width"
  arg { name: "rate" default: 0.5 }
  layer { name: "fc" input: "$input" dense { units: $width } }
  layer { name: "drop" input: "fc" dropout { rate: $rate } }
}
)";

TEST(Blocks, TheUseNamesTheLayersAndStandsForTheOutput) {
  EXPECT_EQ(Flat(std::string(kUnit) + R"(
layer { name: "a" input: "x" unit { width: 3 } }
layer { name: "b" input: "a" unit { width: 2 * 3 rate: 0.1 } }
layer { name: "c" input: "b.fc" relu {} }
objective: "c"
output: "a"
)"),
            R"(layer { name: "a.fc" input: "x" dense { units: 3 } }
layer { name: "a.drop" input: "a.fc" dropout { rate: 0.5 } }
layer { name: "b.fc" input: "a.drop" dense { units: 6 } }
layer { name: "b.drop" input: "b.fc" dropout { rate: 0.1 } }
layer { name: "c" input: "b.fc" relu {} }

objective: "c"
output: "a.drop"
)");
}

TEST(Blocks, WithoutANameTheLayersJoinTheirSurroundings) {
  EXPECT_EQ(Flat(std::string(kUnit) + R"(
block {
  name: "residual"
  layer { input: "$input" unit { width: 4 } }
  layer { name: "add" input: "drop" input: "$input" add {} }
}
layer { name: "r" input: "x" residual {} }
layer { input: "r" unit { width: 1 } }
layer { name: "end" input: "drop" relu {} }
)"),
            R"(layer { name: "r.fc" input: "x" dense { units: 4 } }
layer { name: "r.drop" input: "r.fc" dropout { rate: 0.5 } }
layer { name: "r.add" input: "r.drop" input: "x" add {} }
layer { name: "fc" input: "r.add" dense { units: 1 } }
layer { name: "drop" input: "fc" dropout { rate: 0.5 } }
layer { name: "end" input: "drop" relu {} }
)");
}

TEST(Blocks, SeveralInputsAndOutputsByName) {
  EXPECT_EQ(Flat(R"(
input { name: "x" shape { dim: 4 } }
block {
  name: "swap"
  input: "left" input: "right"
  layer { name: "l" input: $left relu {} }
  layer { name: "r" input: "$right" tanh {} }
  output: "r" output: "l"
}
layer { name: "s" input: "x" input: "x" swap {} }
layer { name: "t" input: ["s:1", "s"] swap {} }
layer { name: "end" input: "t:1" relu {} }
)"),
            R"(layer { name: "s.l" input: "x" relu {} }
layer { name: "s.r" input: "x" tanh {} }
layer { name: "t.l" input: "s.l" relu {} }
layer { name: "t.r" input: "s.r" tanh {} }
layer { name: "end" input: "t.l" relu {} }
)");
}

TEST(Blocks, ArgumentsStandForAnyValue) {
  EXPECT_EQ(Flat(R"(
input { name: "x" shape { dim: [3, 8, 8] } }
block {
  name: "unit"
  arg: ["kernel", "padding", "bias", "id"]
  arg { name: "half" default: 7 / 2.0 }
  layer {
    name: "conv_$id" input: "$input"
    conv { filters: (3 + 1) * 4 - 14 % 4 / 2 kernel: $kernel padding: $padding bias: $bias }
    param { name: "weight" tie: "$name.${id}x" }
  }
  layer { name: "clip" input: "conv_$id" clip { min: -$half max: $half * 2 } }
}
layer { name: "u" input: "x" unit { kernel: [3, 1] padding: SAME bias: false id: 7 } }
)"),
            R"(layer {
  name: "u.conv_7"
  input: "x"
  param { name: "weight" tie: "u.7x" }
  conv { filters: 15 kernel: [3, 1] padding: SAME bias: false }
}
layer { name: "u.clip" input: "u.conv_7" clip { min: -3.5 max: 7 } }
)");
}

TEST(Repeats, EachReadsWhatTheOneBeforePutsOut) {
  EXPECT_EQ(Flat(R"(
input { name: "x" shape { dim: 4 } }
repeat {
  name: "stack" times: 3 from: 1 index: "i" input: "x"
  layer { name: "fc$i" input: "$input" dense { units: 8 * $i } }
  layer { name: "act$i" input: "fc$i" relu {} }
}
layer { name: "end" input: "stack" relu {} }
repeat { name: "none" times: 0 input: "end" layer { name: "never" input: "$input" relu {} } }
layer { name: "last" input: "none" relu {} }
)"),
            R"(layer { name: "fc1" input: "x" dense { units: 8 } }
layer { name: "act1" input: "fc1" relu {} }
layer { name: "fc2" input: "act1" dense { units: 16 } }
layer { name: "act2" input: "fc2" relu {} }
layer { name: "fc3" input: "act2" dense { units: 24 } }
layer { name: "act3" input: "fc3" relu {} }
layer { name: "end" input: "act3" relu {} }
layer { name: "last" input: "end" relu {} }
)");
}

TEST(Repeats, InsideEachOtherAndInsideBlocks) {
  EXPECT_EQ(Flat(R"(
input { name: "x" shape { dim: 4 } }
block {
  name: "grid" arg: "rows"
  repeat {
    times: $rows index: "r" input: "$input"
    repeat { times: 2 index: "c" input: "$input" layer { name: "$r.$c" input: "$input" relu {} } }
  }
}
layer { name: "g" input: "x" grid { rows: 2 } }
layer { name: "end" input: "g" relu {} }
)"),
            R"(layer { name: "g.0.0" input: "x" relu {} }
layer { name: "g.0.1" input: "g.0.0" relu {} }
layer { name: "g.1.0" input: "g.0.1" relu {} }
layer { name: "g.1.1" input: "g.1.0" relu {} }
layer { name: "end" input: "g.1.1" relu {} }
)");
}

TEST(Blocks, ThePlaceTellsHowALayerCameAbout) {
  const LoadedNetwork loaded = Load(
      "input { name: \"x\" }\n"
      "block {\n"
      "  name: \"inner\"\n"
      "  layer { name: \"a\" input: \"$input\" dense { units: 3 } }\n"
      "}\n"
      "block { name: \"outer\" repeat { times: 2 index: \"i\" layer { name: \"p$i\" input: \"$input\" inner {} } } }\n"
      "layer { name: \"o\" input: \"x\" outer {} }\n");
  ASSERT_EQ(loaded.network.layer_size(), 2);
  const SourceLoc loc = loaded.source_map.LayerOptionLoc(1, "units");
  EXPECT_EQ(loc.ToString(), "net.pbtxt:4:52");
  ASSERT_NE(loc.trace, nullptr);
  EXPECT_EQ(*loc.trace,
            "in block \"inner\" used at net.pbtxt:6:52, in repetition 1 of the repeat at net.pbtxt:6:23, in block "
            "\"outer\" used at net.pbtxt:7:1");
  EXPECT_EQ(std::string(At(loc, absl::InvalidArgumentError("too few")).message()),
            "net.pbtxt:4:52: too few (" + *loc.trace + ")");
}

// What is wrong in a block is said once, however often it is used.
TEST(Blocks, AMistakeInsideIsReportedOnce) {
  const auto loaded = LoadNetworkText(
      "input { name: \"x\" }\n"
      "block { name: \"b\" layer { name: \"a\" input: \"$input\" dense { unit: 3 } } }\n"
      "repeat { times: 9 index: \"i\" input: \"x\" layer { name: \"u$i\" input: \"$input\" b {} } }\n",
      "f");
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(std::string(loaded.status().message()),
              HasSubstr("f:2:61: unknown field \"unit\" of dense; did you mean \"units\"? (in block \"b\""));
  EXPECT_EQ(std::string(loaded.status().message()).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace snug::core
