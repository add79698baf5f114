// Which of a metric's values are better, by what makes it.
#include "engine/train/metric_direction.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include "proto/network.pb.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

Better Of(const std::string& layers, const std::string& metric) {
  const auto loaded =
      LoadNetworkText(absl::StrCat(R"(
    name: "net"
    input { name: "x" shape { dim: 3 } }
    input { name: "y" shape { dim: 3 } }
    input { name: "label" dtype: INT32 max_value: 3 }
    layer { name: "error" input: "x" input: "y" l1_loss {} }
    layer { name: "right" input: "x" input: "label" accuracy {} }
  )",
                                   layers, layers.empty() ? "" : R"( output: "m" )", R"( objective: "error")"),
                      "net.pbtxt");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return BetterOf(loaded->network, metric);
}

TEST(MetricDirection, LossesFallAndAccuraciesRise) {
  for (const char* op : {"l1_loss", "mean_squared_error", "huber_loss", "kl_divergence"}) {
    EXPECT_EQ(Of(absl::StrCat(R"(layer { name: "m" input: "x" input: "y" )", op, " {} }"), "m"), Better::kLess) << op;
  }
  for (const char* op : {"softmax_cross_entropy {}", "nll_loss {}"}) {
    EXPECT_EQ(Of(absl::StrCat(R"(layer { name: "m" input: "x" input: "label" )", op, " }"), "m"), Better::kLess) << op;
  }
  for (const char* op : {"accuracy {}", "top_k_accuracy { k: 2 }"}) {
    EXPECT_EQ(Of(absl::StrCat(R"(layer { name: "m" input: "x" input: "label" )", op, " }"), "m"), Better::kMore) << op;
  }
  EXPECT_EQ(Of("", "loss"), Better::kLess);
  EXPECT_EQ(Of("", "nothing"), Better::kUnknown);
}

TEST(MetricDirection, WhatGrowsWithALossFallsToo) {
  const auto made = [](const std::string& of, const std::string& op) {
    return Of(absl::StrCat(R"(layer { name: "m" input: ")", of, R"(" )", op, " }"), "m");
  };
  EXPECT_EQ(made("error", "sqrt {}"), Better::kLess);
  EXPECT_EQ(made("error:0", "exp {}"), Better::kLess);
  EXPECT_EQ(made("right", "reduce_mean {}"), Better::kMore);
  EXPECT_EQ(made("right", "neg {}"), Better::kLess);
  EXPECT_EQ(made("error", "scale { factor: 2 }"), Better::kLess);
  EXPECT_EQ(made("right", "scale { factor: -1 offset: 1 }"), Better::kLess);
  EXPECT_EQ(made("error", "scale { factor: 0 }"), Better::kUnknown);
  EXPECT_EQ(made("x", "reduce_mean {}"), Better::kUnknown);
  EXPECT_EQ(made("error", "square {}"), Better::kUnknown);
  EXPECT_EQ(made("error\" input: \"error", "add {}"), Better::kLess);
  EXPECT_EQ(made("error\" input: \"right", "add {}"), Better::kUnknown);
}

TEST(MetricDirection, ObjectivesAreMinimisedWhateverMakesThem) {
  const auto loaded = LoadNetworkText(R"(
    name: "net"
    input { name: "x" shape { dim: 3 } }
    layer { name: "a" input: "x" dense { units: 1 } }
    layer { name: "b" input: "x" dense { units: 1 } }
    layer { name: "a_soft" input: "a" softplus {} }
    layer { name: "first" input: "a_soft" square {} }
    layer { name: "second" input: "b" square {} }
    layer { name: "mean" input: "second" reduce_mean {} }
    objective: ["first", "second:0"]
    output: ["mean", "a_soft"]
    update { objective: "first" parameter: "a.*" }
    update { objective: "second" parameter: "b.*" }
  )",
                                      "net.pbtxt");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  for (const char* objective : {"first", "second", "second:0", "mean"}) {
    EXPECT_EQ(BetterOf(loaded->network, objective), Better::kLess) << objective;
  }
  EXPECT_EQ(BetterOf(loaded->network, "a_soft"), Better::kUnknown);
}

TEST(MetricDirection, AUserMaySayIt) {
  const auto parsed = [](const std::string& text) {
    const FollowedMetric followed = ParseFollowedMetric(text);
    return absl::StrCat(followed.name, " ", Name(followed.better.value_or(Better::kUnknown)));
  };
  EXPECT_EQ(parsed("size:least"), "size least");
  EXPECT_EQ(parsed("out:1:most"), "out:1 most");
  EXPECT_EQ(parsed("at_least"), "at_least unknown");
  EXPECT_EQ(parsed(":most"), ":most unknown");
  EXPECT_EQ(parsed("size:worst"), "size:worst unknown");
  for (const Better better : {Better::kUnknown, Better::kLess, Better::kMore}) {
    EXPECT_EQ(ParseBetter(Name(better)), better);
  }
  EXPECT_FALSE(ParseBetter("best").has_value());
}

}  // namespace
}  // namespace snug::core
