// Training is the same to the bit under every memory strategy, however streams share bytes, on any number of streams,
// by every engine, with freed bytes poisoned, too: the truth is the serial run in which no two values share a byte. The
// ways to run are made from the tables of strategies, stream policies and engines, so that a new row of any of them is
// here by itself.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engine/base/status.h"
#include "engine/run/session/initialize.h"
#include "engine/run/session/saved_inputs.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

constexpr int kSteps = 2;
constexpr int64_t kLargeBytes = 400'000'000;

struct Way {
  std::string strategy, policy;  // no policy: memory is dynamic
  int streams = 1;
  ExecutorKind engine = ExecutorKind::kSerial;
  bool poison = false;
  std::array<int, 4> choice = {};  // what these are by number: strategy, policy, streams, engine

  bool SamePlan(const Way& other) const {
    return strategy == other.strategy && policy == other.policy && streams == other.streams;
  }
  std::string ToString() const {
    return absl::StrCat(strategy, " ", policy, ", ", streams, " streams, engine ", ExecutorName(engine),
                        poison ? ", poisoned" : "");
  }
};

// The engines that run such plans, and the one that poisons.
void AddRunners(const Way& planned, std::vector<Way>* ways) {
  const bool dynamic = planned.strategy == kDynamicMemory;
  int number = 0;
  for (const ExecutorInfo& engine : Executors()) {
    for (const bool poison : {false, true}) {
      if (poison && engine.kind != ExecutorKind::kSerial) continue;  // no other has it
      Way way = planned;
      way.engine = engine.kind;
      way.poison = poison;
      way.choice[3] = number++;
      if (!dynamic || (!engine.needs_plan && !poison)) ways->push_back(way);
    }
  }
}

// All there are; those by one plan one after the other.
std::vector<Way> AllWays() {
  std::vector<Way> ways;
  const std::vector<std::string> strategies = StrategiesAndDynamic();
  const std::vector<absl::string_view> policies = StreamPolicies();
  for (size_t s = 0; s < strategies.size(); ++s) {
    for (const int streams : {1, 2, 3}) {
      for (size_t p = 0; p < policies.size(); ++p) {
        if (strategies[s] == kDynamicMemory && p > 0) continue;
        AddRunners({.strategy = strategies[s],
                    .policy = strategies[s] == kDynamicMemory ? "" : std::string(policies[p]),
                    .streams = streams,
                    .choice = {static_cast<int>(s), static_cast<int>(p), streams}},
                   &ways);
      }
    }
  }
  return ways;
}

// A few of them, in which any two choices meet that can meet.
std::vector<Way> SampleOfWays(uint32_t seed) {
  const std::vector<Way> all = AllWays();
  std::vector<size_t> sequence(all.size());
  for (size_t i = 0; i < all.size(); ++i) sequence[i] = i;
  std::mt19937 random(seed);
  for (size_t i = sequence.size(); i > 1; --i) std::swap(sequence[i - 1], sequence[random() % i]);
  std::set<std::tuple<size_t, int, size_t, int>> met;
  std::vector<size_t> chosen;
  for (const size_t i : sequence) {
    bool first = false;
    for (size_t a = 0; a < all[i].choice.size(); ++a) {
      for (size_t b = 0; b < a; ++b) first |= met.emplace(a, all[i].choice[a], b, all[i].choice[b]).second;
    }
    if (first) chosen.push_back(i);
  }
  std::sort(chosen.begin(), chosen.end());
  std::vector<Way> sample;
  for (const size_t i : chosen) sample.push_back(all[i]);
  return sample;
}

constexpr uint64_t kSeed = 3;

// Draws the parameters' initial numbers once for all Sessions: for a large network that takes longer than its steps.
void DrawOnce(Graph& graph) {
  for (size_t i = 0; i < graph.variables().size(); ++i) {
    Variable& variable = graph.variable(VariableId{static_cast<int32_t>(i)});
    if (variable.init.kind == Initializer::Kind::kConstant || variable.init.kind == Initializer::Kind::kBytes) continue;
    auto drawn = std::make_shared<std::string>(static_cast<size_t>(variable.type.size_bytes()), '\0');
    Initialize(variable, kSeed, reinterpret_cast<std::byte*>(drawn->data()));
    variable.init = {.kind = Initializer::Kind::kBytes, .bytes = std::move(drawn)};
  }
}

// What some steps leave behind: what is fetched after each of them, and all Variables after the last.
struct Left {
  std::string fetched;
  std::vector<std::byte> state;
  bool operator==(const Left&) const = default;
};

Left WhatTrainingLeaves(Compiled compiled, ExecutorKind engine, bool poison) {
  absl::StatusOr<std::unique_ptr<Session>> made =
      Session::Create(std::move(compiled), {.seed = kSeed, .engine = engine, .poison = poison});
  SNUG_CHECK_OK(made.status());
  Session& session = **made;
  SNUG_CHECK_OK(FeedRandom(session, OpRegistry::Builtin(), 3));
  SavedInputs inputs(session);
  Left left;
  for (int step = 0; step < kSteps; ++step) {
    inputs.Feed();
    SNUG_CHECK_OK(session.Run());
    for (const Endpoint& output : session.compiled().executable.outputs) {
      const Session::View view = *session.Output(output.name);
      left.fetched.append(reinterpret_cast<const char*>(view.data), static_cast<size_t>(view.type->size_bytes()));
    }
  }
  left.state.assign(session.state_data(), session.state_data() + session.state_bytes());
  return left;
}

struct MatrixNetwork {
  const char* name;
  int64_t batch = 1;
  int64_t image = 0;  // 0: the file's size
  bool all = false;   // every way, unless they would take hours
};

void ExpectTheSameBits(const MatrixNetwork& net) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel(net.name, net.image);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  absl::StatusOr<Compiled> compiled =
      CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.batch = net.batch, .threads = 1});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  DrawOnce(compiled->graph);
  const absl::Status unshared = PlanAndLower(*compiled, {.strategy = "none"});
  ASSERT_TRUE(unshared.ok()) << unshared.message();
  const Left truth = WhatTrainingLeaves(*compiled, ExecutorKind::kSerial, /*poison=*/false);
  const bool large = compiled->executable.memory.total_bytes() > kLargeBytes;
  const std::vector<Way> ways = net.all && !large ? AllWays() : SampleOfWays(static_cast<uint32_t>(net.batch));
  const Way* last = nullptr;
  for (const Way& way : ways) {
    SCOPED_TRACE(way.ToString());
    if (last == nullptr || !last->SamePlan(way)) {
      const absl::Status planned = PlanAndLower(*compiled, {.strategy = way.strategy,
                                                            .planner = PlannerFor(way.strategy),
                                                            .streams = way.streams,
                                                            .stream_policy = way.policy});
      ASSERT_TRUE(planned.ok()) << planned.message();
    }
    last = &way;
    ASSERT_TRUE(WhatTrainingLeaves(*compiled, way.engine, way.poison) == truth);
  }
}

TEST(Matrix, HasEveryRowOfTheTables) {
  const std::vector<Way> sample = SampleOfWays(1);
  const auto any = [&](const auto& is) { return std::any_of(sample.begin(), sample.end(), is); };
  for (const std::string& strategy : StrategiesAndDynamic()) {
    for (const ExecutorInfo& engine : Executors()) {
      const bool possible = strategy != kDynamicMemory || !engine.needs_plan;
      EXPECT_EQ(any([&](const Way& way) { return way.strategy == strategy && way.engine == engine.kind; }), possible)
          << strategy << ", " << engine.name;
    }
    for (const absl::string_view policy : StreamPolicies()) {
      EXPECT_EQ(any([&](const Way& way) { return way.strategy == strategy && way.policy == policy; }),
                strategy != kDynamicMemory)
          << strategy << ", " << policy;
    }
  }
  EXPECT_LT(sample.size(), AllWays().size() / 4);
}

class Matrix : public testing::TestWithParam<MatrixNetwork> {};

TEST_P(Matrix, TrainingIsTheSameToTheBit) { ExpectTheSameBits(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Run, Matrix,
    testing::Values(MatrixNetwork{.name = "mlp", .batch = 16},
                    MatrixNetwork{.name = "tiny_conv", .batch = 3, .all = true},
                    MatrixNetwork{.name = "lenet", .batch = 4}, MatrixNetwork{.name = "conv_zoo", .batch = 2},
                    MatrixNetwork{.name = "transformer", .batch = 2}, MatrixNetwork{.name = "resnet20", .batch = 2},
                    MatrixNetwork{.name = "gpt_bytes", .batch = 1}, MatrixNetwork{.name = "copy", .batch = 2},
                    MatrixNetwork{.name = "adversaries", .batch = 3},
                    MatrixNetwork{.name = "mobilenet_v2", .batch = 2, .image = 32}),
    [](const auto& info) { return std::string(info.param.name); });

// The networks in models/ as they are, but for more of the same.
class CampaignMatrix : public testing::TestWithParam<std::string> {};

TEST_P(CampaignMatrix, TrainingIsTheSameToTheBit) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "a campaign: set SNUG_CAMPAIGN to run it";
  ExpectTheSameBits({.name = GetParam().c_str(), .all = true});
}

INSTANTIATE_TEST_SUITE_P(Run, CampaignMatrix, testing::ValuesIn(ModelsToRun()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace snug::core
