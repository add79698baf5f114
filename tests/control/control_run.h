// Runs networks with loops and branches, for the tests here: in double, by plain kernels and without passes where bits
// are compared with those of an interpreter.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/graph/graph.h"
#include "tests/run/train_util.h"

namespace snug::core::test {

using Numbers = std::vector<double>;

// In double, trained, with these gradients.
inline CompileOptions InDouble(std::vector<std::string> gradients = {}) {
  return {.precision = DType::kFloat64, .gradients = std::move(gradients)};
}

// Nothing is fused and every kernel is the plain one, so that a value has the bits that its node alone gives.
inline CompileOptions AsWritten(CompileOptions options) {
  options.plain_kernels = true;
  for (const std::string& pass : PassNames()) options.disabled_passes.insert(pass);
  return options;
}

// A session whose inputs are not fed yet.
inline absl::StatusOr<std::unique_ptr<Session>> MakeUnfed(const std::string& text, CompileOptions options,
                                                          std::optional<ExecutorKind> engine = std::nullopt) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  if (!loaded.ok()) return loaded.status();
  options.keep_inputs = true;
  absl::StatusOr<Compiled> compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  if (!compiled.ok()) return compiled.status();
  return Session::Create(*std::move(compiled), {.seed = 1, .engine = engine});
}

// Feeds, runs a step and fetches. Test failures say what went wrong.
inline std::map<std::string, Numbers> RunOnce(const std::string& text, const std::map<std::string, Numbers>& feeds,
                                              const std::vector<std::string>& fetched, CompileOptions options) {
  std::map<std::string, Numbers> found;
  for (const std::string& name : fetched) {
    if (name.rfind("d(", 0) != 0) options.fetch.push_back(name);
  }
  const auto session = MakeUnfed(text, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return found;
  for (const auto& [name, values] : feeds) {
    const absl::Status fed = (*session)->Feed(name, values);
    EXPECT_TRUE(fed.ok()) << fed.message();
  }
  const absl::Status run = (*session)->Run();
  EXPECT_TRUE(run.ok()) << run.message();
  for (const std::string& name : fetched) {
    const absl::StatusOr<Numbers> values = (*session)->Fetch(name);
    EXPECT_TRUE(values.ok()) << values.status().message();
    if (values.ok()) found[name] = *values;
  }
  return found;
}

// Trains for two steps on random numbers, but for these feeds, and returns what both computed of what is fetched, one
// after the other.
inline std::vector<Numbers> TrainTwoSteps(const std::string& text, CompileOptions options,
                                          const std::vector<std::string>& fetched,
                                          std::optional<ExecutorKind> engine = std::nullopt,
                                          const std::map<std::string, Numbers>& feeds = {}) {
  std::vector<Numbers> found;
  const auto session = MakeUnfed(text, std::move(options), engine);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return found;
  EXPECT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 1).ok());
  for (const auto& [name, values] : feeds) EXPECT_TRUE((*session)->Feed(name, values).ok()) << name;
  for (int step = 0; step < 2; ++step) {
    const absl::Status run = (*session)->Run();
    EXPECT_TRUE(run.ok()) << run.message();
    for (const std::string& name : fetched) found.push_back(*(*session)->Fetch(name));
  }
  return found;
}

// Signs of zeros too. All NaN are one.
inline bool HaveSameBits(const Numbers& a, const Numbers& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
    return std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y);
  });
}

// Runs it with its loops unrolled, and with all of them rolled, which must give the same bits: values and gradients.
inline std::map<std::string, Numbers> RunBothWays(const std::string& text, const std::map<std::string, Numbers>& feeds,
                                                  const std::vector<std::string>& fetched, CompileOptions options) {
  options.loops = LoopRule::kUnrolled;
  std::map<std::string, Numbers> unrolled = RunOnce(text, feeds, fetched, options);
  options.loops = LoopRule::kRolled;
  const std::map<std::string, Numbers> rolled = RunOnce(text, feeds, fetched, options);
  for (const std::string& name : fetched) {
    if (unrolled.count(name) == 0 || rolled.count(name) == 0) continue;  // said by RunOnce
    const Numbers &a = unrolled.at(name), &b = rolled.at(name);
    EXPECT_TRUE(HaveSameBits(a, b)) << name << ": unrolled " << testing::PrintToString(a) << ", rolled "
                                    << testing::PrintToString(b);
  }
  return unrolled;
}

// A network whose one loop, "l", carries a delay line of each of these lengths: what is at its end goes through `layer`
// (which makes "y" of "x", each with the line's number behind it) and in at its begin. All lines begin with the inputs
// "a0", "a1", ..., of four by four. The loop's outputs are the places of the first line, then those of the next one.
inline std::string DelayLines(const std::vector<int>& lengths, int64_t rounds, const std::string& layer) {
  std::string inputs, reads, places, layers, outputs, carries;
  const int longest = *std::max_element(lengths.begin(), lengths.end());
  for (int i = 0; i < longest; ++i) absl::StrAppend(&inputs, "input { name: \"a", i, "\" shape { dim: [4, 4] } }\n");
  for (size_t line = 0; line < lengths.size(); ++line) {
    for (int i = 0; i < lengths[line]; ++i) {
      const std::string place = absl::StrCat("x", line, "_", i);
      const std::string before = i == 0 ? absl::StrCat("y", line) : absl::StrCat("x", line, "_", i - 1);
      absl::StrAppend(&reads, " input: \"a", i, "\"");
      absl::StrAppend(&places, " input: \"", place, "\"");
      absl::StrAppend(&outputs, " output: \"", i == 0 ? "" : "$", before, "\"");
      absl::StrAppend(&carries, " carry { input: \"", place, "\" output: \"", before, "\" }");
    }
    const std::string x = absl::StrCat("$x", line, "_", lengths[line] - 1), y = absl::StrCat("y", line);
    absl::StrAppend(&layers, "layer { ",
                    absl::StrReplaceAll(layer, {{"\"x\"", "\"" + x + "\""}, {"\"y\"", "\"" + y + "\""}}), " }\n");
  }
  return absl::StrCat("block { name: \"body\"", places, "\n", layers, outputs, " }\nbatch: 1\n", inputs,
                      "layer { name: \"l\"", reads, " loop { body: \"body\" times: ", rounds, carries,
                      " } }\noutput: \"l\"");
}

// Returns the graph after a stage.
inline absl::StatusOr<Graph> GraphAfter(const std::string& text, absl::string_view stage, CompileOptions options) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  if (!loaded.ok()) return loaded.status();
  absl::StatusOr<Graph> found = absl::NotFoundError("no such stage");
  options.observer = [&](absl::string_view name, const Graph& graph) {
    if (name == stage) found = graph;
  };
  const absl::StatusOr<Compiled> compiled =
      CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  if (!compiled.ok()) return compiled.status();
  return found;
}

}  // namespace snug::core::test
