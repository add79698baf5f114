#include "ops/registry.h"

#include <gtest/gtest.h>

namespace snug {
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

}  // namespace
}  // namespace snug
