#include "proto/network_writer.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "proto/text_loader.h"
#include "tests/proto/random_network.h"

namespace snug::core {
namespace {

using ::testing::HasSubstr;

constexpr char kSmall[] = R"(name: "mlp"
batch: 64

input { name: "image" shape { dim: [3, 8, 8] } }
input { name: "label" dtype: INT32 }

layer { name: "fc" input: "image" dense { units: 10 } }
layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }

objective: "loss"
output: "fc"

optimizer { learning_rate: 0.1 sgd { momentum: 0.9 } }
)";

TEST(NetworkWriter, WritesAsOneWouldByHand) {
  const auto loaded = LoadNetworkText(kSmall, "net.pbtxt");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(WriteNetworkText(loaded->network), kSmall);
}

TEST(NetworkWriter, BreaksLongLines) {
  proto::Network network;
  proto::Layer* layer = network.add_layer();
  layer->set_name(std::string(50, 'a'));
  layer->add_input(std::string(60, 'b'));
  layer->mutable_dense()->set_units(3);
  EXPECT_EQ(WriteNetworkText(network), "layer {\n  name: \"" + std::string(50, 'a') + "\"\n  input: \"" +
                                           std::string(60, 'b') + "\"\n  dense { units: 3 }\n}\n");
}

// Text, binary, and protobuf's own reader all give the network back.
TEST(NetworkWriter, WhatItWritesLoadsAsTheSameNetwork) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const proto::Network network = testing::RandomNetwork(seed);
    const std::string bytes = WriteNetworkBinary(network);
    const std::string text = WriteNetworkText(network);
    const auto from_text = LoadNetworkText(text, "net.pbtxt");
    ASSERT_TRUE(from_text.ok()) << "seed " << seed << "\n" << from_text.status() << "\n" << text;
    ASSERT_EQ(WriteNetworkBinary(from_text->network), bytes) << "seed " << seed << "\n" << text;
    ASSERT_EQ(WriteNetworkText(from_text->network), text);
    const auto from_binary = LoadNetworkBinary(bytes, "net.pb");
    ASSERT_TRUE(from_binary.ok()) << "seed " << seed << "\n" << from_binary.status();
    ASSERT_EQ(WriteNetworkBinary(from_binary->network), bytes) << "seed " << seed;
    proto::Network by_protobuf;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &by_protobuf)) << "seed " << seed << "\n" << text;
    ASSERT_EQ(WriteNetworkBinary(by_protobuf), bytes) << "seed " << seed << "\n" << text;
  }
}

TEST(NetworkWriter, FilesGoThereAndBack) {
  const auto loaded = LoadNetworkText(kSmall, "net.pbtxt");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const char* name : {"snug_writer_test.pb", "snug_writer_test.pbtxt"}) {
    const std::string path = absl::StrCat(::testing::TempDir(), "/", getpid(), "_", name);
    ASSERT_TRUE(SaveNetworkFile(loaded->network, path).ok());
    const auto again = LoadNetworkFile(path);
    std::remove(path.c_str());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(WriteNetworkText(again->network), kSmall);
  }
}

TEST(NetworkWriter, SaysWhyAFileCannotBeWritten) {
  const absl::Status status = SaveNetworkFile(proto::Network(), "/nowhere/net.pb");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/net.pb: cannot be written"));
}

}  // namespace
}  // namespace snug::core
