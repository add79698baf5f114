// What every strategy must keep: a step touches the planned bytes and no others, and freed bytes are read by nobody.
// (That training is bit-identical under all of them: matrix_test.cc.)
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "engine/run/executors/serial_executor.h"
#include "tests/run/train_util.h"
#include "tests/testing/guarded_bytes.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

CompileOptions OptionsOfStrategy(int64_t batch, const std::string& strategy) {
  CompileOptions options{.batch = batch, .threads = 2};
  options.memory.strategy = strategy;
  options.memory.planner = PlannerFor(strategy);
  return options;
}

// A fed session whose steps consume their inputs.
std::unique_ptr<Session> MakeConsuming(const LoadedNetwork& loaded, const CompileOptions& options, bool poison) {
  absl::StatusOr<Compiled> compiled = Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  if (!compiled.ok()) return nullptr;
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Create(*std::move(compiled),
                      {.seed = 3, .engine = poison ? ExecutorKind::kSerial : ExecutorKind::kReplay, .poison = poison});
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return nullptr;
  EXPECT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 3).ok());
  return *std::move(session);
}

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
std::vector<char> WhereBuffersLie(const memory::TaskPlan& step) {
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
      CompileOptions options = OptionsOfStrategy(3, GetParam());
      options.training = training;
      const auto session = MakeConsuming(*loaded, options, /*poison=*/false);
      ASSERT_NE(session, nullptr);
      const MemoryPlan& plan = session->compiled().executable.memory;
      EXPECT_EQ(session->state_bytes() + session->step_bytes(), plan.total_bytes());

      const test::GuardedBytes a = StepOver(*session, 0x00);
      const test::GuardedBytes b = StepOver(*session, 0xA5);
      const std::vector<char> planned = WhereBuffersLie(plan.step);
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
    std::vector<std::vector<std::byte>> truth;
    for (const std::string& strategy : AllStrategies()) {
      CompileOptions options = OptionsOfStrategy(2, strategy);
      options.fetch = {layer.name()};
      options.threads = 1;
      const auto session = MakeConsuming(*loaded, options, /*poison=*/true);
      ASSERT_NE(session, nullptr);
      ASSERT_TRUE(session->Run().ok());
      const std::vector<std::vector<std::byte>> found = {BytesOf(*session->Output(layer.name())),
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
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), OptionsOfStrategy(4, "none"));
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  int found = 0;
  for (memory::Buffer& buffer : compiled->executable.memory.step.problem.buffers) {
    if (buffer.name != "fc3") continue;
    buffer.last = buffer.first;  // but the loss reads it
    ++found;
  }
  ASSERT_EQ(found, 1);
  auto session = Session::Create(*std::move(compiled), {.seed = 3, .engine = ExecutorKind::kSerial, .poison = true});
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 3).ok());
  ASSERT_TRUE((*session)->Run().ok());
  EXPECT_NE(*(*session)->FetchScalar("loss"), *(*session)->FetchScalar("loss")) << "expected NaN";
}

TEST(Memory, AStepConsumesItsInputsUnlessTheyAreKept) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  CompileOptions options = OptionsOfStrategy(2, "best");
  const auto session = MakeConsuming(*loaded, options, /*poison=*/false);
  ASSERT_NE(session, nullptr);
  EXPECT_TRUE(session->Run().ok());
  const absl::Status again = session->Run();
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()),
              HasSubstr("input \"image\" was consumed by the step before: feed it again"));

  options.keep_inputs = true;
  const auto keeping = MakeConsuming(*loaded, options, /*poison=*/true);
  ASSERT_NE(keeping, nullptr);
  const std::vector<std::byte> image = BytesOf(*keeping->Input("image"));
  EXPECT_TRUE(keeping->Run().ok());
  EXPECT_TRUE(keeping->Run().ok());
  EXPECT_TRUE(BytesOf(*keeping->Input("image")) == image);
}

}  // namespace
}  // namespace snug::core
