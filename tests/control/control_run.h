// Runs networks with loops and branches, for the tests here: in double, by plain kernels and without passes where bits
// are compared with those of an interpreter.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <optional>
#include <string>
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
