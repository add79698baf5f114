// What is said of layers that a mistaken input left without a reader.
#include "engine/compile/unread_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/compile/pipeline.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

std::string TextOf(const std::string& last_input, bool training = true) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(
      "input { name: \"x\" shape { dim: 4 } }\n"
      "layer { name: \"first\" input: \"x\" dense { units: 4 } }\n"
      "layer { name: \"second\" input: \"first\" dense { units: 4 } }\n"
      "layer { name: \"third\" input: \"" +
          last_input +
          "\" dense { units: 1 } }\n"
          "layer { name: \"loss\" input: \"third\" reduce_mean {} } objective: \"loss\"",
      "net");
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  const absl::StatusOr<Compiled> compiled =
      CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.training = training});
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return compiled.ok() ? UnreadParametersText(*compiled) : "";
}

TEST(UnreadParameters, AreSaidWithTheirLayersPlace) {
  EXPECT_THAT(TextOf("first"),
              testing::MatchesRegex("warning: net:3:[0-9]+: nothing reads second.weight, second.bias, so no step "
                                    "changes that: does an input name another layer than it means to.\n"));
}

TEST(UnreadParameters, AreNoneWhereEachLayerIsReadOrNothingTrains) {
  EXPECT_EQ(TextOf("second"), "");
  EXPECT_EQ(TextOf("first", /*training=*/false), "");
}

}  // namespace
}  // namespace snug::core
