// Files that are damaged, or made to do harm: each is an error that says why, and none is a crash.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <random>

#include "engine/base/status.h"
#include "engine/compile/import/import.h"
#include "interchange/export/export.h"
#include "interchange/onnx.pb.h"
#include "ops/registry.h"
#include "proto/network.pb.h"
#include "proto/text_loader.h"
#include "tests/checkpoint/temporary_folder.h"
#include "tests/interchange/onnx_text.h"
#include "tests/testing/source_path.h"

namespace snug::core::onnx {
namespace {

using ::testing::HasSubstr;

OnnxText Small() {
  OnnxText model;
  model.Input("x", {0, 3});
  model.Weight("fc.weight", {2, 3});
  model.Nodes(R"(node { op_type: "Gemm" name: "fc" input: ["x", "fc.weight"] output: "y"
                        attribute { name: "transB" i: 1 } })");
  model.Output("y");
  return model;
}

std::string MessageOf(const OnnxText& model) { return std::string(model.Import().status().message()); }

TEST(HostileOnnx, EveryBeginningOfAFileIsRefusedOrImported) {
  const std::string bytes = Small().Bytes();
  ASSERT_TRUE(ImportBytes(bytes).ok());
  int imported = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    const absl::Status status = ImportBytes(bytes.substr(0, size)).status();
    imported += status.ok() ? 1 : 0;
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << size;
      EXPECT_THAT(std::string(status.message()), HasSubstr("test.onnx: ")) << size;
    }
  }
  EXPECT_EQ(imported, 0);
}

TEST(HostileOnnx, WhatIsNoModelIsSaid) {
  EXPECT_EQ(ImportBytes("this is text").status().message(),
            "test.onnx: is no ONNX file, or only a part of one: its protobuf cannot be read");
  EXPECT_EQ(ImportBytes("").status().message(), "test.onnx: is no ONNX model: it has no graph");
  checkpoint::PosixFileSystem files;
  EXPECT_EQ(ReadModel(files, "/nowhere/a.onnx").status().code(), absl::StatusCode::kNotFound);
}

TEST(HostileOnnx, TensorsWhoseSizesLie) {
  OnnxText model = Small();
  auto* tensor = model.proto().mutable_graph()->mutable_initializer(0);
  tensor->set_dims(0, 1000);
  EXPECT_THAT(MessageOf(model), HasSubstr("initializer \"fc.weight\": expected 3000 elements for [1000, 3], found 6"));
  tensor->set_dims(0, int64_t{1} << 62);
  EXPECT_THAT(MessageOf(model), HasSubstr("too many elements: [4611686018427387904, 3]"));
  tensor->set_dims(0, -2);
  EXPECT_THAT(MessageOf(model), HasSubstr("a dimension is negative"));
  tensor->set_dims(0, 2);
  tensor->set_raw_data(std::string(23, 'x'));
  EXPECT_THAT(MessageOf(model), HasSubstr("expected 24 bytes for [2, 3], found 23"));
  tensor->set_data_type(8);
  EXPECT_THAT(MessageOf(model), HasSubstr("element type STRING is not read"));
}

TEST(HostileOnnx, ExternalDataIsInTheModelsFolderAndOfItsSize) {
  const checkpoint::TemporaryFolder folder;
  const std::string path = folder.path() + "/model.onnx";
  checkpoint::PosixFileSystem files;
  const auto message = [&](const std::string& location, const std::string& offset, const std::string& length) {
    OnnxText model = Small();
    auto* tensor = model.proto().mutable_graph()->mutable_initializer(0);
    tensor->clear_float_data();
    tensor->set_data_location(proto::onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair("location", location), {"offset", offset}, {"length", length}}) {
      auto* entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    return std::string(ParseModel(model.Bytes(), files, path).status().message());
  };
  {
    const auto file = files.Create(folder.path() + "/weights.bin");
    ASSERT_TRUE(file.ok());
    const std::vector<std::byte> bytes(100);
    SNUG_CHECK_OK((*file)->Append(bytes));
    SNUG_CHECK_OK((*file)->Close());
  }
  EXPECT_EQ(message("weights.bin", "76", "24"), "");
  EXPECT_THAT(message("weights.bin", "77", "24"), HasSubstr("24 bytes from byte 77 on of weights.bin, which has 100"));
  EXPECT_THAT(message("weights.bin", "9223372036854775807", "24"), HasSubstr("of weights.bin, which has 100"));
  EXPECT_THAT(message("weights.bin", "-1", "24"), HasSubstr("expected a number of bytes as offset, found \"-1\""));
  EXPECT_THAT(message("weights.bin", "0", "28"), HasSubstr("28 bytes for a tensor of 24"));
  EXPECT_THAT(message("absent.bin", "0", "24"), HasSubstr("absent.bin"));
  for (const char* outside : {"../weights.bin", "/etc/passwd", "a/../../b", ""}) {
    EXPECT_THAT(message(outside, "0", "24"), HasSubstr("expected a file in the model's folder")) << outside;
  }
}

TEST(HostileOnnx, GraphsThatAreNone) {
  OnnxText twice = Small();
  twice.Nodes(R"(node { op_type: "Relu" name: "again" input: "x" output: "y" })");
  EXPECT_THAT(MessageOf(twice), HasSubstr("node \"again\" (Relu): its output is another node's, too"));
  OnnxText circle = Small();
  circle.Nodes(R"(node { op_type: "Add" name: "a" input: ["x", "q"] output: "p" }
                  node { op_type: "Relu" name: "b" input: "p" output: "q" })");
  EXPECT_THAT(MessageOf(circle), HasSubstr("node \"a\" (Add): reads \"q\", which no node before it makes"));
  OnnxText empty;
  EXPECT_THAT(MessageOf(empty), HasSubstr("the graph has no outputs"));
}

// What the fuzzer (tests/fuzz/onnx_fuzzer.cc) does for hours, for a second: bytes changed, cut out and put in, and
// numbers and names of the messages changed, which leaves the protobuf whole.
void ChangeBytes(std::mt19937& random, std::string* bytes) {
  const auto at = [&] { return random() % bytes->size(); };
  switch (random() % 3) {
    case 0:
      (*bytes)[at()] = static_cast<char>(random());
      break;
    case 1:
      bytes->erase(at(), 1 + random() % 4);
      break;
    default:
      bytes->insert(at(), 1 + random() % 4, static_cast<char>(random()));
  }
}

void ChangeNode(std::mt19937& random, proto::onnx::GraphProto* graph) {
  auto* node = graph->mutable_node(static_cast<int>(random() % static_cast<unsigned>(graph->node_size())));
  const auto& other = graph->node(static_cast<int>(random() % static_cast<unsigned>(graph->node_size())));
  const int64_t numbers[] = {-1, 0, 1, 2, 3, 1 << 20, INT64_MAX, INT64_MIN, -7};
  const int64_t number = numbers[random() % std::size(numbers)];
  switch (random() % 5) {
    case 0:
      node->set_op_type(other.op_type());
      break;
    case 1:
      if (node->input_size() > 0 && other.input_size() > 0) node->set_input(0, other.input(0));
      break;
    case 2:
      if (node->input_size() > 1) node->mutable_input()->RemoveLast();
      break;
    case 3:
      for (auto& attribute : *node->mutable_attribute()) {
        if (attribute.has_i()) attribute.set_i(number);
        if (attribute.ints_size() > 0)
          attribute.set_ints(static_cast<int>(random() % static_cast<unsigned>(attribute.ints_size())), number);
      }
      break;
    default:
      for (auto& tensor : *graph->mutable_initializer()) {
        if (tensor.data_type() != proto::onnx::TensorProto::INT64 || tensor.raw_data().size() < 8 || random() % 4 != 0)
          continue;
        tensor.mutable_raw_data()->replace(random() % (tensor.raw_data().size() / 8) * 8, 8,
                                           std::string(reinterpret_cast<const char*>(&number), 8));
      }
  }
}

void CheckChangedFiles(unsigned seed, int rounds) {
  const auto loaded = LoadNetworkFile(test::SourcePath("tests/interchange/every_layer.pbtxt"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  std::map<std::string, size_t> sizes;
  const absl::StatusOr<Imported> graph =
      Import(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.batch = 1, .training = false});
  ASSERT_TRUE(graph.ok());
  for (const Variable& v : graph->graph.variables()) sizes[v.name] = static_cast<size_t>(v.type.shape.num_elements());
  const auto content = [&](const std::string& name) { return std::vector<float>(sizes.at(name), 0.5F); };
  const absl::StatusOr<std::string> whole = ExportModel(loaded->network, loaded->source_map, {}, content);
  ASSERT_TRUE(whole.ok()) << whole.status();
  proto::onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(*whole));
  std::mt19937 random(seed);
  int imported = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes;
    if (round % 3 == 0) {
      bytes = round % 2 == 0 ? *whole : Small().Bytes();
      for (unsigned i = 0; i < 1 + random() % 3; ++i) ChangeBytes(random, &bytes);
    } else {
      proto::onnx::ModelProto changed = model;
      for (unsigned i = 0; i < 1 + random() % 3; ++i) ChangeNode(random, changed.mutable_graph());
      bytes = changed.SerializeAsString();
    }
    const absl::Status status = ImportBytes(bytes).status();
    imported += status.ok() ? 1 : 0;
    // Internal: what was made could not be loaded.
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << "round " << round << ": " << status;
  }
  EXPECT_GT(imported, 0);
  EXPECT_LT(imported, rounds);
}

TEST(HostileOnnx, ChangedFilesAreRefusedOrImported) { CheckChangedFiles(1, 150); }

TEST(HostileOnnx, CampaignOfChangedFiles) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "SNUG_CAMPAIGN is not set";
  CheckChangedFiles(2, 20000);
}

// What a line of a file says must not take the memory or the time of what it says.
TEST(HostileOnnx, ConstantsThatWouldFillTheMemory) {
  const auto message = [](const std::string& nodes) {
    OnnxText model = Small();
    model.Ints("huge", {3}, {1000000, 1000000, 3});
    model.Ints("more", {1}, {int64_t{1} << 40});
    model.Nodes(nodes);
    return MessageOf(model);
  };
  EXPECT_THAT(message(R"(node { op_type: "ConstantOfShape" name: "n" input: "huge" output: "c" }
                         node { op_type: "NonZero" name: "z" input: "c" output: "d" })"),
              HasSubstr("node \"z\" (NonZero)"));
  EXPECT_THAT(message(R"(node { op_type: "Expand" name: "n" input: ["fc.weight", "huge"] output: "c" })"),
              HasSubstr("node \"n\" (Expand): shapes"));
  EXPECT_THAT(message(R"(node { op_type: "Constant" output: "a" attribute { name: "value_int" i: 0 } }
                         node { op_type: "Constant" output: "b" attribute { name: "value_int" i: 1 } }
                         node { op_type: "Constant" output: "l" attribute { name: "value_int" i: 1000000000000 } }
                         node { op_type: "Range" name: "n" input: ["a", "l", "b"] output: "c" })"),
              HasSubstr("node \"n\" (Range): is too long"));
  EXPECT_THAT(message(R"(node { op_type: "Constant" output: "a" attribute { name: "value_int" i: 0 } }
                         node { op_type: "Range" name: "n" input: ["a", "a", "a"] output: "c" })"),
              HasSubstr("node \"n\" (Range): input 2: expected another step than 0"));
  for (const char* op : {"Div", "Mod"}) {
    EXPECT_THAT(message(absl::StrCat(R"(node { op_type: "Constant" output: "a" attribute { name: "value_int" i: 0 } }
                                        node { op_type: ")",
                                     op, R"(" name: "n" input: ["more", "a"] output: "c" })")),
                HasSubstr("divides whole numbers by 0"));
  }
  EXPECT_THAT(message(R"(node { op_type: "Tile" name: "n" input: ["more", "more"] output: "c" }
                         node { op_type: "Relu" name: "r" input: "c" output: "d" }
                         node { op_type: "Concat" name: "s" input: ["c", "c"] output: "e" })"),
              HasSubstr("node \"s\" (Concat)"));
}

}  // namespace
}  // namespace snug::core::onnx
