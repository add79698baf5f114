#include "engine/compile/import/decay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "engine/compile/pipeline.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr char kNetwork[] = R"(
  name: "net"
  input { name: "image" shape { dim: 2 dim: 4 dim: 4 } }
  input { name: "label" dtype: INT32 max_value: 3 }
  layer { name: "conv" input: "image" conv { filters: 2 kernel: 3 } }
  layer { name: "bn" input: "conv" batch_norm {} }
  layer { name: "flat" input: "bn" flatten {} }
  layer { name: "hidden" input: "flat" dense { units: 4 } }
  layer { name: "ln" input: "hidden" layer_norm {} }
  layer { name: "half" input: "ln" dense { units: 4 } param { name: "bias" decay_mult: 0.5 } }
  layer { name: "out" input: "half" dense { units: 3 } param { name: "bias" lr_mult: 2 } }
  layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} }
  objective: "loss"
)";

constexpr char kOptimizer[] = "optimizer { weight_decay: 0.1 }";

absl::StatusOr<Compiled> CompileGraphOf(const std::string& text, const CompileOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkText(text, "net"));
  return CompileGraph(loaded.network, loaded.source_map, OpRegistry::Builtin(), options);
}

Compiled Make(const std::string& text, const CompileOptions& options = {}) {
  absl::StatusOr<Compiled> compiled = CompileGraphOf(text, options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return *std::move(compiled);
}

// The parameters that do not decay as all do.
std::map<std::string, double> Others(const Compiled& compiled) {
  std::map<std::string, double> others;
  for (const Variable& variable : compiled.graph.variables()) {
    if (variable.role != VariableRole::kParameter || variable.decay_mult == 1) continue;
    others[variable.name] = variable.decay_mult;
  }
  return others;
}

TEST(Decay, ActsOnEveryParameterUnlessDecayMultSaysOtherwise) {
  const Compiled compiled = Make(std::string(kNetwork) + kOptimizer);
  EXPECT_THAT(Others(compiled), UnorderedElementsAre(Pair("half.bias", 0.5)));
  EXPECT_EQ(compiled.decay_rule, DecayRule::kAll);
  EXPECT_THAT(compiled.decay_differs, ElementsAre("hidden.bias", "out.bias"));
}

TEST(Decay, ByTheFormerRuleSparesDenseBiasesOfWhichNothingIsWritten) {
  const Compiled compiled = Make(std::string(kNetwork) + kOptimizer, {.decay_rule = DecayRule::kNotDenseBiases});
  EXPECT_THAT(Others(compiled),
              UnorderedElementsAre(Pair("half.bias", 0.5), Pair("hidden.bias", 0), Pair("out.bias", 0)));
  EXPECT_EQ(compiled.decay_rule, DecayRule::kNotDenseBiases);
  EXPECT_THAT(compiled.decay_differs, ElementsAre("hidden.bias", "out.bias"));
}

TEST(Decay, OfNoneOrOfWhatAPatternSparesIsTheSameByBothRules) {
  EXPECT_THAT(Make(kNetwork).decay_differs, IsEmpty());
  EXPECT_THAT(Make(std::string(kNetwork) + kOptimizer, {.training = false}).decay_differs, IsEmpty());
  EXPECT_THAT(Make(std::string(kNetwork) + kOptimizer + "training { no_decay: '*.bias' }").decay_differs, IsEmpty());
}

TEST(Decay, SparesWhatTheNetworkSaysUnlessTheCallerSays) {
  const std::string text = std::string(kNetwork) + kOptimizer + " training { no_decay: ['ln.*', 'half.bias'] }";
  EXPECT_THAT(Others(Make(text)), UnorderedElementsAre(Pair("ln.weight", 0), Pair("ln.bias", 0), Pair("half.bias", 0)));
  EXPECT_THAT(Others(Make(text, {.no_decay = std::vector<std::string>{"conv.weight"}})),
              UnorderedElementsAre(Pair("conv.weight", 0), Pair("half.bias", 0.5)));
  EXPECT_THAT(Others(Make(text, {.no_decay = std::vector<std::string>{}})),
              UnorderedElementsAre(Pair("half.bias", 0.5)));
}

TEST(Decay, PatternsThatMatchNothingAreMistakesWhereTheyAreWritten) {
  const auto compiled = CompileGraphOf(std::string(kNetwork) + "training {\n no_decay: ['*.bias', '*.biass'] }", {});
  EXPECT_THAT(std::string(compiled.status().message()),
              HasSubstr("net:15:23: training.no_decay: \"*.biass\": no parameter has such a name"));
}

TEST(Decay, RulesHaveNames) {
  for (const DecayRule rule : {DecayRule::kAll, DecayRule::kNotDenseBiases}) {
    EXPECT_EQ(DecayRuleFromName(Name(rule)), rule);
  }
  EXPECT_EQ(DecayRuleFromName("some"), std::nullopt);
}

}  // namespace
}  // namespace snug::core
