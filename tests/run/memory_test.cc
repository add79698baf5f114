// What every strategy must keep: training is bit-identical to the unshared serial run, freed bytes are read by nobody,
// and a step touches the planned bytes and no others.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "engine/run/saved_inputs.h"
#include "engine/run/serial_executor.h"
#include "memory/ilp/solver.h"
#include "memory/strategies.h"
#include "tests/run/train_util.h"
#include "tests/testing/guarded_bytes.h"

namespace snug {
namespace {

using testing::HasSubstr;

std::vector<std::string> AllStrategies() {
  std::vector<std::string> names;
  for (const memory::Strategy& strategy : memory::Strategies()) {
    if (strategy.name != "olla" || !memory::IlpSolvers().empty()) names.emplace_back(strategy.name);
  }
  return names;
}

CompileOptions OptionsFor(int64_t batch, const std::string& strategy) {
  CompileOptions options{.batch = batch, .threads = 2};
  options.memory.strategy = strategy;
  const absl::StatusOr<const memory::Strategy*> found = memory::FindStrategy(strategy);
  options.memory.planner.work_limit = found.ok() && (*found)->slow ? 5 : 100'000;
  return options;
}

// A fed session whose steps consume their inputs.
std::unique_ptr<Session> Make(const LoadedNetwork& loaded, const CompileOptions& options, bool poison) {
  absl::StatusOr<Compiled> compiled = Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  if (!compiled.ok()) return nullptr;
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Create(*std::move(compiled),
                      {.seed = 3, .engine = poison ? EngineKind::kSerial : EngineKind::kReplay, .poison = poison});
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return nullptr;
  EXPECT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 3).ok());
  return *std::move(session);
}

std::string BytesOf(const Session::View& view) {
  return {reinterpret_cast<const char*>(view.data), static_cast<size_t>(view.type->size_bytes())};
}

// Everything that a run leaves behind: what is fetched after each step, and all Variables after the last.
std::vector<std::string> Train(Session& session, int steps) {
  std::vector<std::string> results;
  SavedInputs inputs(session);
  for (int step = 0; step < steps; ++step) {
    inputs.Feed();
    const absl::Status status = session.Run();
    EXPECT_TRUE(status.ok()) << status.message();
    for (const Endpoint& output : session.compiled().executable.outputs) {
      results.push_back(BytesOf(*session.Output(output.name)));
    }
  }
  for (const Variable& variable : session.compiled().graph.variables()) {
    const absl::StatusOr<Session::View> view = session.FindVariable(variable.name);
    if (view.ok()) results.push_back(BytesOf(*view));
  }
  return results;
}

struct Net {
  const char* name;
  int64_t batch;
  int64_t image;  // 0: the file's size
};

class EveryStrategy : public testing::TestWithParam<Net> {
 protected:
  void SetUp() override {
    absl::StatusOr<LoadedNetwork> loaded = LoadModel(GetParam().name);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    loaded_ = *std::move(loaded);
    if (GetParam().image == 0) return;
    proto::Shape* const shape = loaded_.network.mutable_input(0)->mutable_shape();
    shape->set_dim(1, GetParam().image);
    shape->set_dim(2, GetParam().image);
  }

  LoadedNetwork loaded_;
};

TEST_P(EveryStrategy, TrainsBitIdenticallyWithFreedBytesPoisoned) {
  constexpr int kSteps = 3;
  const auto truth_session = Make(loaded_, OptionsFor(GetParam().batch, "none"), /*poison=*/false);
  ASSERT_NE(truth_session, nullptr);
  const std::vector<std::string> truth = Train(*truth_session, kSteps);
  for (const std::string& strategy : AllStrategies()) {
    for (const bool poison : {false, true}) {
      if (strategy != memory::kDefaultStrategy && !poison) continue;
      const auto session = Make(loaded_, OptionsFor(GetParam().batch, strategy), poison);
      ASSERT_NE(session, nullptr);
      EXPECT_TRUE(Train(*session, kSteps) == truth) << strategy << (poison ? ", poisoned" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, EveryStrategy,
                         testing::Values(Net{"mlp", 16, 0}, Net{"lenet", 4, 0}, Net{"resnet18", 2, 64},
                                         Net{"gpt_small", 1, 0}),
                         [](const auto& info) { return std::string(info.param.name); });

// One step in an arena between guards, all of it `fill` before. The arena afterwards.
test::GuardedBytes StepOver(Session& fed, uint8_t fill) {
  const Executable& executable = fed.compiled().executable;
  test::GuardedBytes state(executable.memory.state_plan.arena_bytes, fill);
  test::GuardedBytes step(executable.memory.step.placement.plan.arena_bytes, fill);
  std::memcpy(state.data(), fed.state_data(), static_cast<size_t>(state.size()));
  SerialExecutor executor(executable, {state.data(), step.data()}, /*poison=*/nullptr);
  for (size_t i = 0; i < executable.inputs.size(); ++i) {
    std::memcpy(executor.InputBytes(i), fed.executor().InputBytes(i),
                static_cast<size_t>(executable.inputs[i].type.size_bytes()));
  }
  Executor::Failure failure;
  const absl::Status status = executor.Run(&failure);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(state.FindDamage(), std::nullopt);
  EXPECT_EQ(step.FindDamage(), std::nullopt);
  return step;
}

// By byte of the step arena: whether a buffer lies there at any time.
std::vector<char> PlannedBytes(const memory::TaskPlan& step) {
  std::vector<char> planned(static_cast<size_t>(step.placement.plan.arena_bytes), 0);
  for (size_t i = 0; i < step.problem.buffers.size(); ++i) {
    const auto begin = planned.begin() + step.placement.plan.offsets[i];
    std::fill(begin, begin + step.problem.buffers[i].size_bytes, 1);
  }
  return planned;
}

class MeasuredMemory : public testing::TestWithParam<std::string> {};

TEST_P(MeasuredMemory, AStepTouchesThePlannedBytesAndNoOthers) {
  for (const char* name : {"mlp", "lenet"}) {
    const absl::StatusOr<LoadedNetwork> loaded = LoadModel(name);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    for (const bool training : {false, true}) {
      SCOPED_TRACE(absl::StrCat(name, training ? ", training" : ", forward only"));
      CompileOptions options = OptionsFor(3, GetParam());
      options.training = training;
      const auto session = Make(*loaded, options, /*poison=*/false);
      ASSERT_NE(session, nullptr);
      const MemoryPlan& plan = session->compiled().executable.memory;
      EXPECT_EQ(session->state_bytes() + session->step_bytes(), plan.total_bytes());

      const test::GuardedBytes a = StepOver(*session, 0x00);
      const test::GuardedBytes b = StepOver(*session, 0xA5);
      const std::vector<char> planned = PlannedBytes(plan.step);
      int64_t highest = -1;
      for (int64_t i = 0; i < a.size(); ++i) {
        const bool changed = a.data()[i] != std::byte{0x00} || b.data()[i] != std::byte{0xA5};
        if (changed) highest = i;
        ASSERT_TRUE(!changed || planned[static_cast<size_t>(i)]) << "byte " << i << " belongs to no buffer";
      }
      int64_t last_begin = plan.step.placement.plan.arena_bytes;  // of the buffers that end where the arena ends
      for (size_t i = 0; i < plan.step.problem.buffers.size(); ++i) {
        const int64_t begin = plan.step.placement.plan.offsets[i];
        const int64_t end = begin + plan.step.problem.buffers[i].size_bytes;
        if (end == plan.step.placement.plan.arena_bytes) last_begin = std::min(last_begin, begin);
      }
      EXPECT_GE(highest, last_begin) << "the arena is larger than needed";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, MeasuredMemory, testing::ValuesIn(AllStrategies()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Memory, AnyValueCanBeFetchedUnderEveryStrategy) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("lenet");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  for (const proto::Layer& layer : loaded->network.layer()) {
    std::vector<std::string> truth;
    for (const std::string& strategy : AllStrategies()) {
      CompileOptions options = OptionsFor(2, strategy);
      options.fetch = {layer.name()};
      options.threads = 1;
      const auto session = Make(*loaded, options, /*poison=*/true);
      ASSERT_NE(session, nullptr);
      ASSERT_TRUE(session->Run().ok());
      const std::vector<std::string> found = {BytesOf(*session->Output(layer.name())),
                                              BytesOf(*session->Output("loss"))};
      if (truth.empty()) truth = found;
      EXPECT_TRUE(found == truth) << layer.name() << " by " << strategy;
    }
  }
}

TEST(Memory, PoisonReachesWhatAPlanFreesTooEarly) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  absl::StatusOr<Compiled> compiled =
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), OptionsFor(4, "none"));
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  int found = 0;
  for (memory::Buffer& buffer : compiled->executable.memory.step.problem.buffers) {
    if (buffer.name != "fc3") continue;
    buffer.last = buffer.first;  // but the loss reads it
    ++found;
  }
  ASSERT_EQ(found, 1);
  auto session = Session::Create(*std::move(compiled), {.seed = 3, .engine = EngineKind::kSerial, .poison = true});
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 3).ok());
  ASSERT_TRUE((*session)->Run().ok());
  EXPECT_NE(*(*session)->FetchScalar("loss"), *(*session)->FetchScalar("loss")) << "expected NaN";
}

TEST(Memory, AStepConsumesItsInputsUnlessTheyAreKept) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  CompileOptions options = OptionsFor(2, "best");
  const auto session = Make(*loaded, options, /*poison=*/false);
  ASSERT_NE(session, nullptr);
  EXPECT_TRUE(session->Run().ok());
  const absl::Status again = session->Run();
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()),
              HasSubstr("input \"image\" was consumed by the step before: feed it again"));

  options.keep_inputs = true;
  const auto keeping = Make(*loaded, options, /*poison=*/true);
  ASSERT_NE(keeping, nullptr);
  const std::string image = BytesOf(*keeping->Input("image"));
  EXPECT_TRUE(keeping->Run().ok());
  EXPECT_TRUE(keeping->Run().ok());
  EXPECT_TRUE(BytesOf(*keeping->Input("image")) == image);
}

}  // namespace
}  // namespace snug
