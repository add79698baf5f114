// What is wrong with updates that are made one after the other: each mistake with its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/compile/pipeline.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

constexpr char kUpdates[] =
    "update { objective: \"first\" parameter: \"a.*\" }\n"
    "update { objective: \"second\" parameter: \"b.*\" }\n";

// The error of a network of which `rest` are the lines from 9 on; empty: it compiles. `second` reads layers of its own,
// which use the parameters of `first`.
std::string ErrorOf(const std::string& rest, CompileOptions options = {},
                    const std::string& again = "name: \"again\" input: \"b\"") {
  const std::string text =
      "input { name: \"x\" shape { dim: 3 } }\n"
      "layer { name: \"b\" input: \"x\" dense { units: 3 } }\n"
      "layer { name: \"a\" input: \"b\" dense { units: 1 } }\n"
      "layer { " +
      again +
      " dense { units: 1 }\n"
      "  param { name: \"weight\" tie: \"a.weight\" } param { name: \"bias\" tie: \"a.bias\" } }\n"
      "layer { name: \"first\" input: \"a\" reduce_mean {} }\n"
      "layer { name: \"second\" input: \"again\" reduce_mean {} }\n"
      "objective: [\"first\", \"second\"]\n" +
      rest;
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "net");
  if (!loaded.ok()) return std::string(loaded.status().message());
  return std::string(
      CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(), options).status().message());
}

TEST(UpdateGroups, ANetworkOfTwoIsCompiled) { EXPECT_EQ(ErrorOf(kUpdates), ""); }

TEST(UpdateGroups, AnUpdateNamesObjectivesOfTheNetwork) {
  EXPECT_EQ(ErrorOf("update { objective: \"again\" parameter: \"a.*\" }\n"
                    "update { objective: [\"first\", \"second\"] parameter: \"b.*\" }"),
            "net:9:21: update: \"again\" is no objective of the network: expected one of those that it names by "
            "objective: \"...\"");
  EXPECT_THAT(ErrorOf("update { objective: \"frist\" parameter: \"a.*\" }"), HasSubstr("did you mean \"first\"?"));
  EXPECT_THAT(
      ErrorOf("update { parameter: \"a.*\" }\nupdate { objective: [\"first\", \"second\"] parameter: \"b.*\" }"),
      HasSubstr("net:9:1: update: expected the objectives that it minimises, objective: \"...\"; found none"));
  EXPECT_THAT(ErrorOf("update { objective: [\"first\", \"first\"] parameter: \"*\" }"),
              HasSubstr("net:9:31: update: objective \"first\" is named twice"));
}

TEST(UpdateGroups, AnObjectiveThatNoUpdateMinimisesIsNamed) {
  EXPECT_EQ(
      ErrorOf("update { objective: \"first\" parameter: \"*\" }"),
      "net:8:22: objective \"second\": no update minimises it; name it in one: update { objective: \"second\" ... "
      "}");
}

TEST(UpdateGroups, EachParameterIsChangedByOneUpdate) {
  EXPECT_EQ(ErrorOf("update { objective: \"first\" parameter: \"a.weight\" }\n"
                    "update { objective: \"second\" parameter: \"b.*\" }"),
            "net:3:1: parameter \"a.bias\": no update changes it; name it in one (update { parameter: \"...\" }), or "
            "freeze it");
  EXPECT_EQ(ErrorOf("update { objective: \"first\" parameter: \"a.*\" }\n"
                    "update { objective: \"second\" parameter: [\"b.*\", \"*.bias\"] }"),
            "net:10:49: update: parameter \"a.bias\" is changed by update 1 already: expected each in one update");
}

TEST(UpdateGroups, APatternMatchesSomethingThatIsTrained) {
  EXPECT_EQ(ErrorOf("update { objective: \"first\" parameter: [\"a.*\", \"a.wieght\"] }\n"
                    "update { objective: \"second\" parameter: \"b.*\" }"),
            "net:9:48: update: \"a.wieght\": expected the name of a parameter that is trained, or a pattern of such "
            "names; no parameter has such a name; did you mean \"a.weight\"?");
  EXPECT_THAT(ErrorOf("update { objective: \"first\" }\nupdate { objective: \"second\" parameter: \"*\" }"),
              HasSubstr("net:9:1: update: expected the parameters that it changes"));
}

TEST(UpdateGroups, AnUpdateChangesWhatItsObjectivesDependOn) {
  EXPECT_EQ(ErrorOf("layer { name: \"c\" input: \"x\" dense { units: 1 bias: false } }\n"
                    "update { objective: \"first\" parameter: [\"a.*\", \"c.*\"] }\n"
                    "update { objective: \"second\" parameter: \"b.*\" }"),
            "net:10:1: update: parameter \"c.weight\": expected one that an objective of this update depends on; none "
            "does");
}

TEST(UpdateGroups, WhatAnUpdateHasChangedIsNotReadAsItWas) {
  // The second objective goes through the same layer as the first, which is computed once.
  EXPECT_EQ(ErrorOf("layer { name: \"sum\" input: [\"a\", \"again\"] add {} }\nobjective: \"sum\"\n"
                    "update { objective: \"first\" parameter: \"a.*\" }\n"
                    "update { objective: [\"second\", \"sum\"] parameter: \"b.*\" }"),
            "net:9:1: layer \"sum\" (add): input 0 \"a\" is computed in turn 1, before update 1 changes \"a.weight\", "
            "and this layer is computed after that, for update 2: give it layers of its own to read, which use the "
            "same parameters (param { tie: \"...\" })");
  EXPECT_EQ(
      ErrorOf("layer { name: \"gain\" input: [\"again\", \"a\"] sub {} }\noutput: \"gain\"\n"
              "update { objective: \"first\" parameter: \"a.*\" }\n"
              "update { objective: \"second\" parameter: \"b.*\" }"),
      "net:9:1: layer \"gain\" (sub): input 1 \"a\" is computed in turn 1, before update 1 changes \"a.weight\", and "
      "input 0 \"again\" in turn 2, after that: a figure is of one turn; fetch both and compare them outside of the "
      "network (output: [\"a\", \"again\"]), or give it layers of its own to read, which use the same parameters "
      "(param "
      "{ tie: \"...\" })");
  EXPECT_EQ(ErrorOf("update { objective: [\"first\", \"second\"] parameter: \"a.*\" }\n"
                    "update { objective: \"second\" parameter: \"b.*\" }"),
            "net:10:21: update: objective \"second\" is computed in turn 1, before update 1 changes \"a.weight\", and "
            "update 2 comes after that: give it layers of its own, which use the same parameters (param { tie: \"...\" "
            "})");
}

TEST(UpdateGroups, AnOptimizerOfItsOwnIsChecked) {
  const auto error = [](const std::string& optimizer) {
    return ErrorOf("update { objective: \"first\" parameter: \"a.*\"\noptimizer { " + optimizer +
                   " } }\nupdate { objective: \"second\" parameter: \"b.*\" }");
  };
  EXPECT_EQ(error("learning_rate: 1 adam { beta1: 0.5 }"), "");
  EXPECT_EQ(error("adam { beta1: 1 }"),
            "net:10:1: update.optimizer.adam.beta1: expected at least 0 and less than 1, found 1");
  EXPECT_EQ(error("average { decay: 0.9 }"),
            "net:10:1: update.optimizer.average: averages are of all parameters alike: say it in the network's "
            "optimizer");
  EXPECT_THAT(ErrorOf("optimizer { learning_rate: 0 }\nupdate { objective: \"first\" parameter: \"a.*\"\noptimizer { "
                      "learning_rate: 0.1 } }\nupdate { objective: \"second\" parameter: \"b.*\" }"),
              HasSubstr("net:11:1: update.optimizer.learning_rate: expected 0, as schedules change it with that of the "
                        "network's optimizer, which is 0; found 0.1"));
}

TEST(UpdateGroups, WhatUpdatesInTurnCannotDoIsRefused) {
  EXPECT_EQ(ErrorOf(kUpdates, {.batch = 4, .micro_batches = {.count = 2}}),
            "net:9:1: update: a step of 2 micro-batches makes one update of all parameters: expected accumulate 1");
  EXPECT_EQ(ErrorOf(kUpdates, {.gradients = {"x"}}),
            "net:9:1: update: each update has gradients of its own: expected no gradient of \"x\" for all together");
  EXPECT_EQ(ErrorOf(kUpdates, {.sparse_tables = {.patterns = {"*"}}}),
            "net:9:1: update: sparse-tables is for networks that one update trains");
  EXPECT_THAT(
      ErrorOf("block { name: \"body\" input: \"s\" layer { name: \"t\" input: \"$s\" tanh {} } output: \"t\" }\n"
              "layer { name: \"l\" input: \"x\" loop { body: \"body\" times: 2 carry { input: \"s\" output: "
              "\"t\" } } }\n" +
              std::string(kUpdates)),
      HasSubstr("net:11:1: update: networks with loops or branches are trained by one update"));
}

}  // namespace
}  // namespace snug::core
