// Compiles and steps a network given as text, for tests of whole runs.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/run/random_feed.h"
#include "engine/run/session.h"
#include "proto/text_loader.h"
#include "tests/testing/source_path.h"

namespace snug {

// Random data, fed once: inputs stay.
inline absl::StatusOr<std::unique_ptr<Session>> MakeSession(const LoadedNetwork& loaded, CompileOptions options,
                                                            uint64_t seed = 1) {
  options.keep_inputs = true;
  absl::StatusOr<Compiled> compiled = Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options);
  if (!compiled.ok()) return compiled.status();
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*std::move(compiled), {.seed = seed});
  if (!session.ok()) return session.status();
  const absl::Status fed = FeedRandom(**session, OpRegistry::Builtin(), seed);
  if (!fed.ok()) return fed;
  return session;
}

inline absl::StatusOr<std::unique_ptr<Session>> MakeSession(const std::string& text, const CompileOptions& options,
                                                            uint64_t seed = 1) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  if (!loaded.ok()) return loaded.status();
  return MakeSession(*loaded, options, seed);
}

// Of models/, or else of tests/data/.
inline absl::StatusOr<LoadedNetwork> LoadModel(const std::string& name) {
  const std::string model = test::SourcePath("models/" + name + ".pbtxt");
  return LoadNetworkFile(std::filesystem::exists(model) ? model : test::SourcePath("tests/data/" + name + ".pbtxt"));
}

inline std::vector<double> Losses(Session& session, int steps, const std::string& objective = "loss") {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    const absl::Status status = session.Run();
    EXPECT_TRUE(status.ok()) << status.message();
    const absl::StatusOr<double> loss = session.FetchScalar(objective);
    EXPECT_TRUE(loss.ok()) << loss.status().message();
    losses.push_back(loss.ok() ? *loss : 0);
  }
  return losses;
}

}  // namespace snug
