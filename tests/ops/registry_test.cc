#include "ops/registry.h"

#include <gtest/gtest.h>

#include "ops/graph_builder.h"

namespace snug::core {
namespace {

TEST(OpRegistry, KnowsTheBuiltinOps) {
  ASSERT_NE(OpRegistry::Builtin().Find("relu"), nullptr);
  EXPECT_EQ(OpRegistry::Builtin().file_of("relu_grad"), "relu");
  EXPECT_EQ(OpRegistry::Builtin().Find("relo"), nullptr);
}

TEST(OpRegistry, RejectsDuplicatesAndIncompleteOps) {
  OpRegistry registry;
  const OpDef* relu = OpRegistry::Builtin().Find("relu");
  ASSERT_TRUE(registry.AddAll("a", {*relu}).ok());
  EXPECT_EQ(registry.AddAll("b", {*relu}).message(), "op \"relu\" (b) is defined already in a");
  OpDef broken = *relu;
  broken.name = "broken";
  broken.samples = nullptr;
  EXPECT_EQ(registry.AddAll("c", {broken}).message(), "op \"broken\" (c) has no samples");
}

TEST(OpRegistry, OpsForLayersOnlyHaveNoNodes) {
  const OpDef& parameter = OpRegistry::Builtin().Get("parameter");
  NodeTypes types;
  EXPECT_EQ(InferTypes(parameter, &types).message(), "op \"parameter\" is for layers only: it has no nodes");
  OpRegistry registry;
  OpDef broken = parameter;
  broken.layer = nullptr;
  EXPECT_EQ(registry.AddAll("a", {broken}).message(), "op \"parameter\" (a) has no layer");
}

}  // namespace
}  // namespace snug::core
