// What only the importer can refuse: it says where, and what was expected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/compile/import/import.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The error of a network whose input is x [batch, 3, 8, 8]; empty: it is imported.
std::string ErrorOf(const std::string& rest) {
  const absl::StatusOr<LoadedNetwork> loaded =
      LoadNetworkText("input { name: \"x\" shape { dim: [3, 8, 8] } }\n" + rest, "net");
  if (!loaded.ok()) return "not loaded: " + std::string(loaded.status().message());
  return std::string(
      Import(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.training = false}).status().message());
}

std::string ErrorOfLayer(const std::string& op) { return ErrorOf("layer { name: \"a\" input: \"x\"\n" + op + " }"); }

TEST(ImportErrors, NumbersThatAreNoneAreRefusedInEveryOption) {
  EXPECT_EQ(ErrorOfLayer("leaky_relu { slope: nan }"),
            "net:3:21: layer \"a\" (leaky_relu): option \"slope\": expected a finite number, found nan");
  EXPECT_EQ(ErrorOfLayer("leaky_relu { slope: -inf }"),
            "net:3:21: layer \"a\" (leaky_relu): option \"slope\": expected a finite number, found -inf");
  EXPECT_THAT(ErrorOfLayer("scale { factor: inf }"), HasSubstr("option \"factor\": expected a finite number"));
  EXPECT_THAT(ErrorOfLayer("batch_norm { epsilon: nan }"), HasSubstr("option \"epsilon\": expected a finite number"));
  EXPECT_THAT(ErrorOfLayer("dropout { rate: nan }"), HasSubstr("option \"rate\": expected a finite number"));
}

TEST(ImportErrors, InfinityIsANumberWhereItMeansSomething) {
  EXPECT_EQ(ErrorOfLayer("clip { min: -inf max: inf }"), "");
  EXPECT_EQ(ErrorOfLayer("pad { axis: 2 before: 1 value: -inf }"), "");
  EXPECT_EQ(ErrorOf("layer { name: \"a\" constant { dim: 2 value: [0, -inf] } }"), "");
  EXPECT_EQ(ErrorOfLayer("clip { min: nan }"),
            "net:3:13: layer \"a\" (clip): option \"min\": expected a number, found nan");
  EXPECT_EQ(ErrorOf("layer { name: \"a\" constant { dim: 2 value: [0, nan] } }"),
            "net:2:48: layer \"a\" (constant): option \"value\": expected a number, found nan");
}

TEST(ImportErrors, NumbersInsideMessagesAreLookedAtToo) {
  EXPECT_EQ(ErrorOf("layer { name: \"a\" parameter { dim: 2 init { kind: CONSTANT value: nan } } }"),
            "net:2:38: layer \"a\" (parameter): option \"init\": value: expected a finite number, found nan");
  EXPECT_EQ(ErrorOfLayer("bias_add {} param { name: \"bias\"\n init { kind: XAVIER_NORMAL gain: inf } }"),
            "net:4:2: layer \"a\" (bias_add): param \"bias\": init: gain: expected a finite number, found inf");
}

TEST(ImportErrors, ThePlaceIsNotReadFromTheMessage) {
  EXPECT_THAT(ErrorOfLayer("conv { filters: 2 kernel: 3 }\nparam { name: 'a\"b' }"),
              StartsWith("net:4:1: layer \"a\" (conv): param \"a\"b\": this layer has the parameters"));
}

TEST(ImportErrors, AnErrorIsWhereThePartIsThatItIsAbout) {
  EXPECT_THAT(ErrorOfLayer("softmax {\naxis: 7 }"), StartsWith("net:4:7: layer \"a\" (softmax): option \"axis\": "));
  EXPECT_THAT(ErrorOf("layer { name: \"a\"\nconstant { value: 1\ndim: [2, 0] } }"),
              StartsWith("net:4:7: layer \"a\" (constant): option \"dim\": "));
  EXPECT_THAT(ErrorOfLayer("bias_add {\naxis: 7 }"), StartsWith("net:4:7: layer \"a\" (bias_add): option \"axis\": "));
  EXPECT_THAT(ErrorOf("layer { name: \"a\" input: \"x\"\ninput: \"x\" matmul {} }\n"
                      "layer { name: \"b\" input: \"x\" flatten {} }\nlayer { name: \"c\" input: \"x\"\n"
                      "input: \"b\" add {} }"),
              HasSubstr("net:6:8: layer \"c\" (add): input 1 \"b\""));
}

TEST(ImportErrors, ABatchIsRefusedWhereItIsSaid) {
  EXPECT_THAT(ErrorOf("layer { name: \"a\" input: \"x\" relu {} }\nbatch: 8\ntraining { batch: 0 }"),
              StartsWith("net:4:19: training.batch: expected at least 1, found 0"));
}

TEST(ImportErrors, WhatATiedParameterIsLikeIsSaidWhereItIs) {
  for (const char* const field : {"init { kind: CONSTANT }", "lr_mult: 2", "decay_mult: 0"}) {
    EXPECT_THAT(
        ErrorOf("layer { name: \"a\" input: \"x\" dense { units: 8 } }\nlayer { name: \"b\" input: \"a\" dense { "
                "units: 8 }\nparam { name: \"weight\" tie: \"a.weight\" " +
                std::string(field) + " } }"),
        StartsWith("net:4:1: layer \"b\" (dense): param \"weight\": it is tied to \"a.weight\", and init, lr_mult "
                   "and decay_mult are that parameter's: say them in its own layer"))
        << field;
  }
}

TEST(ImportErrors, AParameterIsChangedOnce) {
  EXPECT_EQ(
      ErrorOfLayer("conv { filters: 2 kernel: 3 }\nparam { name: \"weight\" lr_mult: 2 } param { name: \"bias\" }\n"
                   "param { name: \"weight\" frozen: true }"),
      "net:5:1: layer \"a\" (conv): param \"weight\" is given twice: first at net:4:1");
}

TEST(ImportErrors, WhatReadsAFailedLayerIsLookedAtToo) {
  EXPECT_EQ(ErrorOf("layer { name: \"a\" input: \"x\" scale { factor: nan } }\n"
                    "layer { name: \"b\" input: \"a\" scale { offset: inf } }\n"
                    "layer { name: \"c\" input: \"b\" dense {} }"),
            "net:2:46: layer \"a\" (scale): option \"factor\": expected a finite number, found nan\n"
            "net:3:46: layer \"b\" (scale): option \"offset\": expected a finite number, found inf");
}

TEST(ImportErrors, AnObjectiveIsComputed) {
  EXPECT_EQ(ErrorOf("layer { name: \"a\" input: \"x\" reduce_mean {} }\nobjective: \"x\""),
            "net:3:12: objective \"x\" is an input of the network, which training cannot change: name the loss layer");
  EXPECT_THAT(ErrorOf("layer { name: \"a\" input: \"x\" reduce_mean {} }\nobjective: [\"a\", \"a:0\"]"),
              HasSubstr("objective \"a:0\" is named twice"));
}

TEST(ImportErrors, OfABlockSayWhereItIsUsed) {
  EXPECT_THAT(ErrorOf("block { name: \"b\" layer { name: \"c\" input: $input leaky_relu { slope: nan } } }\n"
                      "layer { name: \"a\" input: \"x\" b {} }"),
              testing::AllOf(StartsWith("net:2:"), HasSubstr("(in block \"b\" used at net:3:1)")));
}

}  // namespace
}  // namespace snug::core
