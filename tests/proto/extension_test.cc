// Ops from outside the library are extension fields of a layer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "proto/network_writer.h"
#include "proto/text_loader.h"
#include "tests/proto/swirl.pb.h"

namespace snug::core {
namespace {

using ::testing::HasSubstr;

constexpr char kText[] = R"(input { name: "x" }

layer { name: "a" input: "x" [my.swirl] { turns: 3 } }
)";

TEST(Extensions, AreReadAndWritten) {
  const auto loaded = LoadNetworkText(kText, "f");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->network.layer(0).GetExtension(my::swirl).turns(), 3);
  EXPECT_EQ(WriteNetworkText(loaded->network), kText);
  EXPECT_EQ(loaded->source_map.LayerOptionLoc(0, "turns").ToString(), "f:3:50");
  const auto binary = LoadNetworkBinary(WriteNetworkBinary(loaded->network), "f.pb");
  ASSERT_TRUE(binary.ok()) << binary.status();
  EXPECT_EQ(WriteNetworkText(binary->network), kText);
}

TEST(Extensions, AreTheOneOpOfTheirLayer) {
  const auto loaded =
      LoadNetworkText("input { name: \"x\" }\nlayer { name: \"a\" input: \"x\" relu {} [my.swirl] {} }", "f");
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(std::string(loaded.status().message()),
              HasSubstr("f:2:38: a layer has one op: \"my.swirl\" comes after"));
  proto::Network network;
  network.add_layer()->set_name("a");
  network.mutable_layer(0)->mutable_relu();
  network.mutable_layer(0)->MutableExtension(my::swirl);
  const auto binary = LoadNetworkBinary(WriteNetworkBinary(network), "f.pb");
  EXPECT_EQ(std::string(binary.status().message()), "f.pb: layer 0 \"a\": expected one op, found 2");
}

}  // namespace
}  // namespace snug::core
