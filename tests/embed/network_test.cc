#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/embed/networks.h"

namespace snug::testing {
namespace {

using ::testing::HasSubstr;

std::string Mistake(const Network& network) { return Session::Create(network).status().message(); }

TEST(Network, BuiltByCodeIsTheOneOfTheFile) {
  const Result<Network> text = Network::FromText(kSmallText);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(*SmallNetwork().ToText(), *text->ToText());
}

TEST(Network, ListsEnumsAndNestedOptions) {
  Network network("n");
  network.Input("x", {3, 8, 8});
  network.Layer("c", "conv", {"x"}, {{"filters", 4}, {"kernel", {3, 3}}, {"padding", "SAME"}, {"bias", false}});
  network.Param("c", "weight", {{"init.kind", "HE_NORMAL"}, {"lr_mult", 2}});
  const std::string text = *network.ToText();
  EXPECT_THAT(text, HasSubstr("padding: SAME"));
  EXPECT_THAT(text, HasSubstr("kind: HE_NORMAL"));
  EXPECT_THAT(text, HasSubstr("lr_mult: 2"));
  EXPECT_TRUE(Session::Create(network, {.training = false}).ok());
}

TEST(Network, MistakesNameTheLineOfTheProgramAndWhatWasMeant) {
  Network network("n");
  network.Input("x", {4});
  const int line = __LINE__ + 1;
  network.Layer("fc", "dense", {"x"}, {{"unit", 8}});
  network.Layer("c", "conv", {"x"}, {{"padding", "SOME"}});
  network.Layer("d", "dropout", {"x"}, {{"rate", "half"}});
  network.Param("fd", "weight", {{"frozen", true}});
  EXPECT_EQ(network.status().code(), StatusCode::kInvalidArgument);
  const std::string message = network.status().message();
  EXPECT_THAT(message, HasSubstr("network_test.cc:" + std::to_string(line) + ": "));
  EXPECT_THAT(message, HasSubstr("layer \"fc\" (dense): option \"unit\": unknown field \"unit\" of Dense; did you mean "
                                 "\"units\"?"));
  EXPECT_THAT(message, HasSubstr("option \"padding\": expected one of EXPLICIT, SAME, VALID, found \"SOME\""));
  EXPECT_THAT(message, HasSubstr("option \"rate\": expected a number, found \"half\""));
  EXPECT_THAT(message, HasSubstr("\"fd\" names no layer before this; did you mean \"fc\"?"));
  EXPECT_EQ(Mistake(network), message);
}

TEST(Network, MistakesOfShapesAreLocatedToo) {
  Network network("n");
  network.Input("x", {4});
  const int line = __LINE__ + 1;
  network.Layer("fc", "dense", {"x"}, {{"units", 0}}).Objective("fc");
  EXPECT_THAT(Mistake(network), HasSubstr("network_test.cc:" + std::to_string(line) + ": "));
  EXPECT_THAT(Mistake(network), HasSubstr("layer \"fc\" (dense): option \"units\": expected at least 1, found 0"));
}

TEST(Network, UnknownOpsAndInputs) {
  Network network("n");
  network.Input("x", {4}).Layer("fc", "dens", {"x"}).Layer("act", "relu", {"z"}).Objective("act");
  EXPECT_THAT(Mistake(network), HasSubstr("unknown op \"dens\"; did you mean \"dense\"?"));
  EXPECT_THAT(Mistake(network), HasSubstr("\"z\" names no input"));
}

TEST(Network, MistakesOfAFileAreLocated) {
  const Result<Network> network = Network::FromText("layer { name: \"a\" dens {} }", "my.pbtxt");
  ASSERT_FALSE(network.ok());
  EXPECT_THAT(network.status().message(), HasSubstr("my.pbtxt:1:19: "));
  EXPECT_EQ(Network::FromFile("/nowhere/x.pbtxt").status().code(), StatusCode::kNotFound);
}

TEST(Network, OneThatWasMovedFromIsEmpty) {
  Network network = SmallNetwork();
  const Network other = std::move(network);
  network.Input("x", {1});  // NOLINT: that it is harmless is what is tested
  EXPECT_EQ(network.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Session::Create(network).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(other.status().ok());
}

}  // namespace
}  // namespace snug::testing
