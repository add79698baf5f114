#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/embed/networks.h"

namespace snug::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNan;

std::string Mistake(const Network& network) { return Session::Create(network).status().message(); }

TEST(Network, BuiltByCodeIsTheOneOfTheFile) {
  const Result<Network> text = Network::FromText(kSmallText);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(*SmallNetwork().ToText(), *text->ToText());
}

TEST(Network, UpdatesBuiltByCodeAreThoseOfTheFile) {
  const auto build = [](const char* parameter) {
    Network network("two");
    network.Input("x", {2}).Layer("b", "dense", {"x"}, {{"units", 2}}).Layer("a", "dense", {"b"}, {{"units", 1}});
    network.Layer("c", "dense", {"b"}, {{"units", 1}}).Layer("first", "reduce_mean", {"a"});
    network.Layer("second", "reduce_mean", {"c"}).Objective("first").Objective("second");
    network.Update({"first"}, {"a.*"}, {{"learning_rate", 0.5}, {"adam.beta1", 0.5}});
    network.Update({"second"}, {"b.*", parameter});
    return network;
  };
  const Network network = build("c.*");
  EXPECT_THAT(*network.ToText(),
              HasSubstr("update { objective: \"first\" parameter: \"a.*\" optimizer { learning_rate: 0.5 adam { beta1: "
                        "0.5 } } }\nupdate { objective: \"second\" parameter: \"b.*\" parameter: \"c.*\" }"));
  Result<Session> session = Session::Create(network);
  EXPECT_TRUE(session.ok()) << session.status().message();
  EXPECT_THAT(Mistake(build("d.*")), HasSubstr("network_test.cc:"));
  EXPECT_THAT(Mistake(build("d.*")), HasSubstr("update: \"d.*\": expected the name of a parameter that is trained"));
}

TEST(Network, GetsAsManyClassesAsDataHave) {
  const Network network = SmallNetwork();
  const Result<Network> seven = network.WithClasses(7);
  ASSERT_TRUE(seven.ok()) << seven.status().message();
  EXPECT_THAT(*seven->ToText(), HasSubstr("units: 7"));
  EXPECT_THAT(*network.ToText(), HasSubstr("units: 3"));  // it stays
  const Result<Session> session = Session::Create(*seven);
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_THAT(network.WithClasses(0).status().message(), HasSubstr("classes: expected 1 to 10000000, found 0"));
  Network plain("plain");
  plain.Input("x", {4}).Layer("y", "relu", {"x"}).Output("y");
  EXPECT_THAT(plain.WithClasses(2).status().message(), HasSubstr("classes: this network has none to set: "));
  plain.Layer("z", "dense", {"y"}, {{"unit", 2}});
  EXPECT_THAT(plain.WithClasses(2).status().message(), HasSubstr("unit"));  // mistakes come first
}

// A recurrence over the five rows of x, beside one of two bodies.
constexpr const char* kLoopText = R"(
name: "loops"
block { name: "cell" input: "x" input: "h" layer { name: "fc" input: "$x" dense { units: 3 } }
  layer { name: "sum" input: "fc" input: "$h" add {} } layer { name: "next" input: "sum" tanh {} } output: "next" }
block { name: "half" input: "h" layer { name: "y" input: "$h" scale { factor: 0.5 } } output: "y" }
block { name: "same" input: "h" layer { name: "y" input: "$h" scale {} } output: "y" }
input { name: "x" shape { dim: [5, 2] } }
input { name: "h" shape { dim: 3 } }
input { name: "which" dtype: INT32 max_value: 2 }
layer { name: "rnn" input: "x" input: "h" loop { body: "cell" carry { input: "h" output: "next" }
  scan { input: "x" axis: 1 } collect { output: "next" axis: 1 reverse: true } } }
layer { name: "out" input: "which" input: "rnn" branch { body: "half" body: "same" } }
output: "out"
output: "rnn:1"
)";

Network LoopNetwork() {
  Network cell("cell");
  cell.Input("x").Input("h").Layer("fc", "dense", {"x"}, {{"units", 3}});
  cell.Layer("sum", "add", {"fc", "h"}).Layer("next", "tanh", {"sum"}).Output("next");
  Network half("half");
  half.Input("h").Layer("y", "scale", {"h"}, {{"factor", 0.5}}).Output("y");
  Network same("same");
  same.Input("h").Layer("y", "scale", {"h"}).Output("y");
  Network network("loops");
  network.Subnetwork(cell).Subnetwork(half).Subnetwork(same);
  network.Input("x", {5, 2}).Input("h", {3}).Input("which", {}, DType::kInt32);
  network.Loop("rnn", "cell", {"x", "h"},
               {.carries = {{"h", "next"}}, .scans = {{"x"}}, .collects = {{.name = "next", .reverse = true}}});
  network.Branch("out", {"half", "same"}, {"which", "rnn"}).Output("out").Output("rnn:1");
  return network;
}

std::vector<float> RunAndFetch(Session& session, const std::string& output) {
  std::vector<float> x(10), h(3, 0.25F);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.1F * static_cast<float>(i) - 0.4F;
  const std::vector<int32_t> which = {0};
  const Status run = session.Step({{"x", x}, {"h", h}, {"which", which}});
  EXPECT_TRUE(run.ok()) << run.message();
  const auto found = session.Fetch<float>(output);
  EXPECT_TRUE(found.ok()) << found.status().message();
  return found.ok() ? *found : std::vector<float>();
}

TEST(Network, LoopsAndBranchesAreThoseOfTheFile) {
  const Result<Network> text = Network::FromText(kLoopText);
  ASSERT_TRUE(text.ok()) << text.status().message();
  auto of_text = Session::Create(*text, {.training = false});
  auto of_code = Session::Create(LoopNetwork(), {.training = false});
  ASSERT_TRUE(of_text.ok()) << of_text.status().message();
  ASSERT_TRUE(of_code.ok()) << of_code.status().message();
  for (const char* output : {"out", "rnn:1"})
    EXPECT_EQ(RunAndFetch(*of_text, output), RunAndFetch(*of_code, output)) << output;
}

// y doubles while it is below 20, at most six times, and each sample by itself; the rounds' numbers are added up, as
// often as each sample's count says.
constexpr const char* kEndsText = R"(
name: "ends"
block { name: "double" input: "y"
  layer { name: "under" input: "$y" scale { factor: -1 offset: 20 } }
  layer { name: "positive" input: "under" relu {} }
  layer { name: "go" input: "positive" reduce_sum { axis: 1 } }
  layer { name: "twice" input: "$y" scale { factor: 2 } }
  output: "twice" output: "go" }
block { name: "add_up" input: "sum" input: "round"
  layer { name: "number" input: "$round" cast { dtype: FLOAT } }
  layer { name: "next" input: "$sum" input: "number" add {} }
  output: "next" }
input { name: "y" shape { dim: 1 } }
input { name: "n" dtype: INT32 }
layer { name: "w" parameter { dim: 1 init { kind: CONSTANT value: 1 } } }
layer { name: "begin" input: "y" input: "w" mul {} }
layer { name: "doubled" input: "begin" loop { body: "double" carry { input: "y" output: "twice" } times: 6 condition: "go" stop_at_bound: true } }
layer { name: "spoilt" input: "begin" loop { body: "double" carry { input: "y" output: "twice" } times: 2 condition: "go" } }
layer { name: "sums" input: "begin" input: "n" loop { body: "add_up" carry { input: "sum" output: "next" } times: 5 counted: true index: "round" } }
layer { name: "both" input: "doubled" input: "sums" add {} }
layer { name: "loss" input: "both" reduce_sum {} }
objective: "loss"
output: "doubled"
output: "spoilt"
output: "sums"
optimizer { learning_rate: 0.125 sgd {} }
)";

Network EndsNetwork() {
  Network twice("double");
  twice.Input("y").Layer("under", "scale", {"y"}, {{"factor", -1}, {"offset", 20}});
  twice.Layer("positive", "relu", {"under"}).Layer("go", "reduce_sum", {"positive"}, {{"axis", 1}});
  twice.Layer("twice", "scale", {"y"}, {{"factor", 2}}).Output("twice").Output("go");
  Network add_up("add_up");
  add_up.Input("sum").Input("round").Layer("number", "cast", {"round"}, {{"dtype", "FLOAT"}});
  add_up.Layer("next", "add", {"sum", "number"}).Output("next");
  Network network("ends");
  network.Subnetwork(twice).Subnetwork(add_up).Input("y", {1}).Input("n", {}, DType::kInt32);
  network.Layer("w", "parameter", {}, {{"dim", {1}}, {"init.kind", "CONSTANT"}, {"init.value", 1}});
  network.Layer("begin", "mul", {"y", "w"});
  const LoopOptions doubling{.carries = {{"y", "twice"}}, .times = 6, .condition = "go", .stop_at_bound = true};
  network.Loop("doubled", "double", {"begin"}, doubling);
  network.Loop("spoilt", "double", {"begin"}, {.carries = {{"y", "twice"}}, .times = 2, .condition = "go"});
  network.Loop("sums", "add_up", {"begin", "n"},
               {.carries = {{"sum", "next"}}, .times = 5, .counted = true, .index = "round"});
  network.Layer("both", "add", {"doubled", "sums"}).Layer("loss", "reduce_sum", {"both"}).Objective("loss");
  network.Output("doubled").Output("spoilt").Output("sums").Optimizer({{"learning_rate", 0.125}, {"sgd.momentum", 0}});
  return network;
}

// Counts, conditions with and without a bound that is the end, the round's number, and what a step learns of it.
TEST(Network, LoopsThatEndAtRunTimeAreTrained) {
  const Result<Network> text = Network::FromText(kEndsText);
  ASSERT_TRUE(text.ok()) << text.status().message();
  auto of_text = Session::Create(*text, {.batch = 3});
  auto of_code = Session::Create(EndsNetwork(), {.batch = 3});
  ASSERT_TRUE(of_text.ok()) << of_text.status().message();
  ASSERT_TRUE(of_code.ok()) << of_code.status().message();
  for (Session* const session : {&*of_text, &*of_code}) {
    const std::vector<float> y = {3, 30, 0.25F};
    const std::vector<int32_t> n = {0, 4, 5};
    const Status run = session->Step({{"y", y}, {"n", n}});
    ASSERT_TRUE(run.ok()) << run.message();
    EXPECT_THAT(*session->Fetch<float>("doubled"), ElementsAre(24, 30, 16));  // the last one would go on
    EXPECT_THAT(*session->Fetch<float>("spoilt"), ElementsAre(IsNan(), 30, IsNan()));
    EXPECT_THAT(*session->Fetch<float>("sums"), ElementsAre(3, 36, 10.25));
    // d loss / d w = 3 (8 + 1) + 30 (1 + 1) + 0.25 (64 + 1)
    EXPECT_FLOAT_EQ(session->FindVariable("w")->as<const float>()[0], 1 - 0.125F * (27 + 60 + 16.25F));
  }
}

TEST(Network, MistakesInSubNetworksAreLocatedToo) {
  Network cell("cell");
  const int line = __LINE__ + 1;
  cell.Input("h").Layer("fc", "dense", {"h"}, {{"units", 0}}).Output("fc");
  Network network("n");
  network.Input("x", {4}).Subnetwork(cell);
  network.Loop("l", "cell", {"x"}, {.carries = {{"h", "fc"}}, .times = 2}).Output("l");
  EXPECT_THAT(Mistake(network), HasSubstr("network_test.cc:" + std::to_string(line) + ": layer \"fc\" (dense)"));
  EXPECT_THAT(Mistake(network), HasSubstr("(in \"cell\", run by layer \"l\" at "));
  Network shaped("shaped");
  shaped.Input("h", {4}).Layer("y", "relu", {"h"}).Output("y").Objective("y");
  Network other("n");
  other.Input("x", {4}).Subnetwork(shaped).Loop("l", "shaped", {"x"}, {.carries = {{"h", "y"}}, .times = 2});
  EXPECT_THAT(Mistake(other), HasSubstr("input \"h\": expected neither shape nor dtype"));
  EXPECT_THAT(Mistake(other), HasSubstr("only the whole network has objectives, updates and an optimizer"));
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
