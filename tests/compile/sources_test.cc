// The layers parameter and constant, which become Variables and no nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "engine/compile/import/import.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

absl::StatusOr<Imported> ImportText(const std::string& layers) {
  const std::string text = "name: \"net\" input { name: \"x\" shape { dim: 3 } } " + layers +
                           " layer { name: \"sum\" input: \"x\" input: \"y\" add {} } output: \"sum\"";
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "net");
  if (!loaded.ok()) return loaded.status();
  return Import(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.training = false});
}

TEST(Sources, AParameterIsAVariableNamedLikeTheLayer) {
  const auto net = ImportText("layer { name: \"y\" parameter { dim: [1, 3] init { kind: HE_NORMAL fan: FAN_OUT } } }");
  ASSERT_TRUE(net.ok()) << net.status().message();
  const VariableId id = net->graph.FindVariable("y");
  ASSERT_TRUE(id.valid());
  EXPECT_EQ(net->graph.variable(id).role, VariableRole::kParameter);
  EXPECT_EQ(net->graph.variable(id).init.kind, Initializer::Kind::kNormal);
  EXPECT_DOUBLE_EQ(net->graph.variable(id).init.value, std::sqrt(2.0));  // one output
}

TEST(Sources, AParameterStartsAtZeroUnlessToldOtherwise) {
  const auto net = ImportText("layer { name: \"y\" parameter { dim: 3 } }");
  ASSERT_TRUE(net.ok()) << net.status().message();
  const Initializer& init = net->graph.variable(net->graph.FindVariable("y")).init;
  EXPECT_EQ(init.kind, Initializer::Kind::kConstant);
  EXPECT_EQ(init.value, 0);
}

TEST(Sources, AConstantHoldsItsNumbers) {
  const auto net = ImportText("layer { name: \"y\" constant { dim: 3 value: [1, -2, 0.5] } }");
  ASSERT_TRUE(net.ok()) << net.status().message();
  const Variable& y = net->graph.variable(net->graph.FindVariable("y"));
  EXPECT_EQ(y.role, VariableRole::kConstant);
  ASSERT_EQ(y.init.kind, Initializer::Kind::kBytes);
  float numbers[3];
  ASSERT_EQ(y.init.bytes->size(), sizeof(numbers));
  std::memcpy(numbers, y.init.bytes->data(), sizeof(numbers));
  EXPECT_THAT(numbers, testing::ElementsAre(1, -2, 0.5));
}

TEST(Sources, WhatDoesNotFitIsSaid) {
  const auto error = [](const std::string& layer) { return std::string(ImportText(layer).status().message()); };
  EXPECT_THAT(error("layer { name: \"y\" constant { dim: 3 value: [1, 2] } }"),
              testing::HasSubstr("option \"value\": expected one number or 3 for shape [3], found 2"));
  EXPECT_THAT(error("layer { name: \"y\" parameter { dim: [3, 0] } }"), testing::HasSubstr("option \"dim\""));
  EXPECT_THAT(error("layer { name: \"y\" input: \"x\" parameter { dim: 3 } }"),
              testing::HasSubstr("expected 0 inputs, found 1"));
}

}  // namespace
}  // namespace snug::core
