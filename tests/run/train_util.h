// Compiles and steps a network given as text, for tests of whole runs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/run/session/random_feed.h"
#include "engine/run/session/session.h"
#include "memory/ilp/solver.h"
#include "memory/strategies.h"
#include "ops/kernel_context.h"
#include "proto/text_loader.h"
#include "tests/testing/source_path.h"

namespace snug::core {

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

// Of models/, or else of tests/. `image`: the height and width of the first input; 0: the file's.
inline absl::StatusOr<LoadedNetwork> LoadModel(const std::string& name, int64_t image = 0) {
  std::string path;
  for (const char* const folder : {"models/", "tests/data/", "tests/golden/parity/"}) {
    path = test::SourcePath(folder + name + ".pbtxt");
    if (std::filesystem::exists(path)) break;
  }
  absl::StatusOr<LoadedNetwork> loaded = LoadNetworkFile(path);
  if (!loaded.ok() || image == 0) return loaded;
  proto::Shape* const shape = loaded->network.mutable_input(0)->mutable_shape();
  shape->set_dim(1, image);
  shape->set_dim(2, image);
  return loaded;
}

// The names in models/.
inline std::vector<std::string> Models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::SourcePath("models"))) {
    if (entry.path().extension() == ".pbtxt") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Those of them that tests run in many ways: without those that only have more of the same layers than another one, and
// those whose steps take many seconds.
inline std::vector<std::string> ModelsToRun() {
  std::vector<std::string> names = Models();
  for (const char* const larger :
       {"googlenet", "inception_bn", "inception_v3", "llama_110m", "mnasnet1_0", "r3d_18", "resnet34", "resnet101",
        "resnet152", "resnet1001", "unet", "vgg16", "vgg19", "xlmr_base"}) {
    const auto found = std::find(names.begin(), names.end(), larger);
    SNUG_CHECK(found != names.end());
    names.erase(found);
  }
  return names;
}

// Of at most so many layers.
inline std::vector<std::string> ModelsOfAtMost(int layers) {
  std::vector<std::string> names;
  for (const std::string& name : Models()) {
    const absl::StatusOr<LoadedNetwork> loaded = LoadModel(name);
    if (!loaded.ok() || loaded->network.layer_size() <= layers) names.push_back(name);  // the test says what is wrong
  }
  return names;
}

// All that this build can plan by.
inline std::vector<std::string> AllStrategies() {
  std::vector<std::string> names;
  for (const memory::Strategy& strategy : memory::Strategies()) {
    if (!strategy.by_solver || !memory::IlpSolvers().empty()) names.emplace_back(strategy.name);
  }
  return names;
}

inline std::vector<std::string> StrategiesAndDynamic() {
  std::vector<std::string> names = AllStrategies();
  names.emplace_back(kDynamicMemory);
  return names;
}

// Plans of its kind, in little time.
inline memory::PlannerOptions PlannerFor(const std::string& strategy) {
  const absl::StatusOr<const memory::Strategy*> found = memory::FindStrategy(strategy);
  return {.work_limit = found.ok() && (*found)->slow ? 5 : 100'000};
}

inline std::vector<std::byte> StateBytes(const Session& session) {
  return {session.state_data(), session.state_data() + session.state_bytes()};
}

inline std::vector<std::byte> BytesOf(const Session::View& view) {
  return {view.data, view.data + static_cast<size_t>(view.type->size_bytes())};
}

// A kernel for Steps that are to fail.
inline absl::Status Fails(const KernelContext&) { return absl::InternalError("planted"); }

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

// What some steps of a network left, and the ops that its program has.
struct TrainedRun {
  std::vector<std::byte> state;
  std::vector<double> losses;
  std::map<std::string, int> ops;
  int64_t bytes = 0;  // of a step
};

inline TrainedRun TrainSteps(const std::string& network, const CompileOptions& options, int steps) {
  const auto session = MakeSession(network, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  TrainedRun run;
  run.losses = Losses(**session, steps);
  run.state = StateBytes(**session);
  const Compiled& compiled = (*session)->compiled();
  run.bytes = compiled.executable.memory.step_bytes();
  for (const Step& step : compiled.executable.steps) ++run.ops[compiled.graph.node(step.node).op];
  return run;
}

}  // namespace snug::core
