// Whole networks on several streams, by every engine: the same bits as one Step after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/run/train_util.h"
#include "tests/testing/source_path.h"

namespace snug {
namespace {

using testing::HasSubstr;

struct How {
  EngineKind engine = EngineKind::kSerial;
  int streams = 1;
  std::string strategy = "none", policy;
};

struct Result {
  std::vector<double> losses;
  std::vector<std::vector<double>> variables;
  bool operator==(const Result&) const = default;
};

absl::StatusOr<Result> Train(const LoadedNetwork& loaded, int64_t batch, const How& how) {
  CompileOptions options{.batch = batch, .threads = 1, .keep_inputs = true};
  options.memory = {.strategy = how.strategy, .streams = how.streams, .stream_policy = how.policy};
  absl::StatusOr<Compiled> compiled = Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options);
  if (!compiled.ok()) return compiled.status();
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Create(*std::move(compiled), {.seed = 3, .engine = how.engine});
  if (!session.ok()) return session.status();
  const absl::Status fed = FeedRandom(**session, OpRegistry::Builtin(), 3);
  if (!fed.ok()) return fed;
  Result result{.losses = Losses(**session, 2)};
  for (const Variable& variable : (*session)->compiled().graph.variables()) {
    if (variable.role == VariableRole::kConstant) continue;
    result.variables.push_back(*(*session)->GetVariable(variable.name));
  }
  return result;
}

struct Net {
  const char* name;
  const char* file;
  int64_t batch;
  int64_t image;  // 0: the file's size
};

absl::StatusOr<LoadedNetwork> Load(const Net& net) {
  absl::StatusOr<LoadedNetwork> loaded = LoadNetworkFile(test::SourcePath(net.file));
  if (!loaded.ok() || net.image == 0) return loaded;
  proto::Shape* const shape = loaded->network.mutable_input(0)->mutable_shape();
  shape->set_dim(1, net.image);
  shape->set_dim(2, net.image);
  return loaded;
}

class Streams : public testing::TestWithParam<Net> {};

TEST_P(Streams, TrainingIsTheSameOnAnyNumberByAnyEngine) {
  const absl::StatusOr<LoadedNetwork> loaded = Load(GetParam());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const absl::StatusOr<Result> truth = Train(*loaded, GetParam().batch, {});
  ASSERT_TRUE(truth.ok()) << truth.status().message();
  std::vector<How> runs;
  for (const int streams : {1, 2, 4}) {
    for (const char* strategy : {"none", "both", "best"}) {
      runs.push_back({EngineKind::kReplay, streams, strategy, "serial"});
    }
    runs.push_back({EngineKind::kDynamic, streams, "best", "serial"});
  }
  for (const absl::string_view policy : StreamPolicies()) {
    runs.push_back({EngineKind::kReplay, 2, "both", std::string(policy)});
  }
  runs.push_back({EngineKind::kReplay, 4, "best", "waitless"});
  for (const How& how : runs) {
    const absl::StatusOr<Result> found = Train(*loaded, GetParam().batch, how);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_TRUE(*found == *truth) << EngineName(how.engine) << ", " << how.streams << " streams, " << how.strategy
                                  << " " << how.policy;
  }
}

INSTANTIATE_TEST_SUITE_P(Run, Streams,
                         testing::Values(Net{"mlp", "models/mlp.pbtxt", 16, 0},
                                         Net{"transformer", "tests/golden/parity/transformer.pbtxt", 2, 0},
                                         Net{"resnet18", "models/resnet18.pbtxt", 2, 32}),
                         [](const auto& info) { return std::string(info.param.name); });

absl::Status Fails(const KernelContext&) { return absl::InternalError("planted"); }

// Where the planted failure lies: the number of the first Step of that kind.
template <class Kind>
std::unique_ptr<Session> WithFailure(const LoadedNetwork& loaded, KernelFn* restored, Kind&& kind) {
  absl::StatusOr<Compiled> compiled = Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(),
                                              {.batch = 4, .threads = 1, .keep_inputs = true});
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  std::vector<Step>& steps = compiled->executable.steps;
  const auto step = std::find_if(steps.begin(), steps.end(), kind);
  EXPECT_TRUE(step != steps.end());
  *restored = step->kernel;
  step->kernel = Fails;
  auto session = Session::Create(*std::move(compiled), {.seed = 3});
  EXPECT_TRUE(session.ok()) << session.status().message();
  EXPECT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 3).ok());
  return *std::move(session);
}

std::vector<std::byte> State(const Session& session) {
  return {session.state_data(), session.state_data() + session.state_bytes()};
}

TEST(Failure, BeforeAnyVariableChangedLeavesThemAll) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  KernelFn kernel;
  const auto session = WithFailure(*loaded, &kernel, [](const Step& step) { return !step.mutates; });
  const std::vector<std::byte> before = State(*session);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = session->Run();
    EXPECT_THAT(std::string(status.message()), HasSubstr("planted"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("mlp.pbtxt:"));
    EXPECT_TRUE(State(*session) == before);
  }
}

TEST(Failure, AmongUpdatesMarksTheSession) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  KernelFn kernel;
  const auto session = WithFailure(*loaded, &kernel, [](const Step& step) { return step.mutates; });
  EXPECT_THAT(std::string(session->Run().message()), HasSubstr("planted"));
  const absl::Status again = session->Run();
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()), HasSubstr("the session has failed"));
  session->VariablesRestored();
  EXPECT_THAT(std::string(session->Run().message()), HasSubstr("planted"));
}

}  // namespace
}  // namespace snug
