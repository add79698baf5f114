// Sessions on the pretended device give the same bits as on the CPU, however the step is run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "engine/base/status.h"
#include "engine/run/observe/profiler.h"
#include "engine/run/session/random_feed.h"
#include "tests/cuda/host_kernels.h"

namespace snug::core {
namespace {

using cuda::FakeCuda;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Compiled> One(Compiled compiled) {
  std::vector<Compiled> all;
  all.push_back(std::move(compiled));
  return all;
}

absl::StatusOr<Result> TrainOnFake(const LoadedNetwork& loaded, const How& how, FakeCuda& fake) {
  SNUG_ASSIGN_OR_RETURN(Compiled compiled, CompileForFake(loaded, how, fake));
  const int64_t planned = compiled.executable.memory.total_bytes();
  const bool dynamic = compiled.executable.memory.dynamic.has_value();
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                        NewSession(One(std::move(compiled)), how, OpenFake(fake)));
  SNUG_ASSIGN_OR_RETURN(Result result, Train(*session, loaded, kTrainingSteps));
  if (!dynamic) {
    EXPECT_EQ(fake.used_bytes(), planned) << how.ToString();
    EXPECT_EQ(session->state_bytes() + session->step_bytes(), planned) << how.ToString();
  }
  return result;
}

class CudaSession : public testing::TestWithParam<const char*> {};

TEST_P(CudaSession, TrainsToTheSameBitsHoweverAStepIsRun) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel(GetParam());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const absl::StatusOr<Result> truth = TrainOnCpu(*loaded, kTrainingSteps);
  ASSERT_TRUE(truth.ok()) << truth.status();
  std::vector<How> ways;
  for (const char* strategy : {"none", "both", "best"}) {
    for (const int streams : {1, 2, 3}) {
      for (const bool graph : {true, false}) ways.push_back({.strategy = strategy, .streams = streams, .graph = graph});
    }
  }
  ways.push_back({.keep_inputs = true});
  ways.push_back({.streams = 2, .engine = ExecutorKind::kSerial});
  ways.push_back({.strategy = "dynamic", .engine = ExecutorKind::kSerial});
  for (const char* strategy : {"none", "both", "best", "dynamic"}) {
    for (const int streams : {1, 2, 3}) {
      ways.push_back({.strategy = strategy, .streams = streams, .engine = ExecutorKind::kDynamic});
    }
  }
  uint64_t seed = 0;
  for (const How& how : ways) {
    FakeCuda fake({.seed = ++seed});
    const absl::StatusOr<Result> found = TrainOnFake(*loaded, how, fake);
    ASSERT_TRUE(found.ok()) << how.ToString() << ": " << found.status();
    EXPECT_EQ(found->losses, truth->losses) << how.ToString();
    EXPECT_TRUE(found->state == truth->state) << how.ToString();
    EXPECT_EQ(fake.Leaks(), "") << how.ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CudaSession,
                         testing::Values("models/mlp.pbtxt", "models/lenet.pbtxt",
                                         "tests/golden/parity/transformer.pbtxt"),
                         [](const auto& info) {
                           const std::string path = info.param;
                           const size_t begin = path.rfind('/') + 1;
                           return path.substr(begin, path.find('.') - begin);
                         });

class CudaRuns : public testing::Test {
 protected:
  void Make(const How& how) {
    absl::StatusOr<LoadedNetwork> loaded = LoadModel("models/mlp.pbtxt");
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    loaded_ = *std::move(loaded);
    absl::StatusOr<Compiled> compiled = CompileForFake(loaded_, how, fake_);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    absl::StatusOr<std::unique_ptr<Session>> session = NewSession(One(*std::move(compiled)), how, OpenFake(fake_));
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }
  void Feed() { ASSERT_TRUE(FeedRandom(*session_, OpRegistry::Builtin(), 3).ok()); }
  void Step() {
    Feed();
    const absl::Status status = session_->Run();
    ASSERT_TRUE(status.ok()) << status;
  }
  // Returns the calls of a step that has been done before, without those that only turn to the device.
  std::vector<std::string> CallsOfStep() {
    Feed();
    fake_.ClearCalls();
    EXPECT_TRUE(session_->Run().ok());
    std::vector<std::string> calls = fake_.calls();
    std::erase(calls, "cuCtxSetCurrent");
    return calls;
  }

  FakeCuda fake_;
  LoadedNetwork loaded_;
  std::unique_ptr<Session> session_;
};

TEST_F(CudaRuns, AStepIsTwoUploadsOneLaunchTwoDownloadsAndOneWait) {
  Make({.streams = 2});
  Step();
  EXPECT_EQ(fake_.Count("cuStreamBeginCapture"), 0) << "kernels are loaded first";
  Step();
  EXPECT_EQ(fake_.Count("cuStreamBeginCapture"), 1);
  EXPECT_THAT(CallsOfStep(), ElementsAre("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync", "cuGraphLaunch", "cuMemcpyDtoHAsync",
                                         "cuMemcpyDtoHAsync", "cuStreamSynchronize"));
  ASSERT_TRUE(session_->SetLearningRate(0.5).ok());
  EXPECT_EQ(CallsOfStep().size(), 7U) << "one copy more";
  EXPECT_EQ(fake_.Count("cuStreamBeginCapture"), 0) << "a learning rate is no argument of a kernel";
}

// This list is what a step does, call by call. Whoever changes a step has to change it.
TEST_F(CudaRuns, WithoutAGraphAStepAsksForEachOpOnceAndWaitsAtTheEnd) {
  Make({.graph = false});
  Step();
  const std::vector<std::string> calls = CallsOfStep();
  std::vector<std::string> expected = {"cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync"};
  const Compiled& compiled = session_->compiled();
  for (const core::Step& step : compiled.executable.steps) expected.push_back(compiled.graph.node(step.node).op);
  for (const char* call : {"cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync", "cuStreamSynchronize"})
    expected.emplace_back(call);
  EXPECT_EQ(calls, expected);
}

TEST_F(CudaRuns, StreamsWaitOnlyWhereTheScheduleSaysSo) {
  Make({.streams = 3, .graph = false});
  Step();
  CallsOfStep();
  const auto waits = static_cast<int64_t>(session_->compiled().executable.schedule.waits.size());
  EXPECT_EQ(fake_.Count("cuStreamWaitEvent"), waits + 2 + 2) << "and where the other two begin and end";
  EXPECT_EQ(fake_.Count("cuStreamSynchronize"), 1);
  EXPECT_EQ(fake_.Count("cuEventSynchronize"), 0);
}

TEST_F(CudaRuns, TheDynamicEngineFindsTheWaitsAsItGoes) {
  for (const char* strategy : {"none", "best"}) {
    Make({.strategy = strategy, .streams = 3, .engine = ExecutorKind::kDynamic});
    Step();
    CallsOfStep();
    const auto waits = static_cast<int64_t>(session_->compiled().executable.schedule.waits.size());
    EXPECT_GT(waits, 0);
    EXPECT_GE(fake_.Count("cuStreamWaitEvent"), waits + 2 + 2) << "the schedule has the fewest there can be";
    EXPECT_EQ(fake_.Count("cuStreamSynchronize"), 1);
    EXPECT_EQ(fake_.Count("cuEventSynchronize"), 0);
    EXPECT_EQ(fake_.Count("cuEventCreate"), 0) << "those of the step before are used again";
    EXPECT_EQ(fake_.Count("cuGraphLaunch"), 0);
    session_.reset();
  }
}

// Tries interleavings in which another stream takes bytes that one has just given back.
TEST(CudaSessions, DynamicMemoryOnSeveralStreamsHasTheSameBitsInManyInterleavings) {
  const LoadedNetwork loaded = LoadModel("tests/data/tiny.pbtxt").value();
  const Result truth = TrainOnCpu(loaded, kTrainingSteps).value();
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    FakeCuda fake({.seed = seed});
    How how{.strategy = "dynamic", .streams = 3, .engine = ExecutorKind::kDynamic};
    how.dynamic.garbage.gc_fast = seed % 2 == 0;
    const absl::StatusOr<Result> found = TrainOnFake(loaded, how, fake);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->losses, truth.losses) << "seed " << seed;
    EXPECT_TRUE(found->state == truth.state) << "seed " << seed;
  }
}

TEST(CudaSessions, AnAllocatorOnADeviceTakesWhatWasForetold) {
  const LoadedNetwork loaded = LoadModel("models/lenet.pbtxt").value();
  for (const char* allocator : {"auto_growth", "buddy", "prealloc", "system"}) {
    FakeCuda fake;
    How how{.strategy = "dynamic", .engine = ExecutorKind::kSerial};
    how.dynamic.allocator = {.allocator = allocator, .initial_mb = 20, .buddy_initial_mb = 1, .buddy_max_pool_mb = 1};
    const auto session = NewSession(One(CompileForFake(loaded, how, fake).value()), how, OpenFake(fake)).value();
    const int64_t before = fake.used_bytes();
    ASSERT_TRUE(Train(*session, loaded, kTrainingSteps).ok());
    const DynamicMemory& dynamic = *session->compiled().executable.memory.dynamic;
    const auto foretold =
        memory::Simulate(EventsOf(dynamic, kTrainingSteps), how.dynamic.allocator, {memory::Place::Cuda(0)});
    ASSERT_TRUE(foretold.ok()) << foretold.status();
    const memory::AllocatorStatistics found = session->dynamic_statistics();
    EXPECT_EQ(found.peak_reserved_bytes, foretold->peak_reserved_bytes) << allocator;
    EXPECT_EQ(found.used_at_reserved_peak, foretold->used_at_reserved_peak) << allocator;
    EXPECT_LE(found.peak_reserved_bytes, dynamic.predicted.peak_reserved_bytes) << allocator;
    EXPECT_GT(before, 0);
  }
}

TEST(CudaSessions, MemoryThatWillRunOutIsThatOfTheDevice) {
  FakeCuda fake;
  const LoadedNetwork loaded = LoadModel("models/lenet.pbtxt").value();
  CompileOptions options = OptionsOf({.strategy = "dynamic", .batch = 64});
  options.device = {Device::Kind::kCuda, 1};
  options.memory.memory_limit = 4'000'000;
  const absl::Status status = Compile(loaded.network, loaded.source_map, OpsWithHostKernels(), options).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("out of memory on cuda:1: asked for "));
}

TEST_F(CudaRuns, NothingIsTakenOnceTheGraphIsThere) {
  Make({.streams = 2});
  Step();
  Step();
  const int64_t used = fake_.used_bytes();
  fake_.ClearCalls();
  for (int i = 0; i < 100; ++i) Step();
  EXPECT_EQ(fake_.used_bytes(), used);
  for (const char* call : {"cuMemAlloc", "cuMemHostAlloc", "cuMemCreate", "cuEventCreate", "cuStreamCreate",
                           "cuStreamBeginCapture", "cuGraphInstantiate"}) {
    EXPECT_EQ(fake_.Count(call), 0) << call;
  }
}

TEST_F(CudaRuns, VariablesAreReadAndWrittenBetweenSteps) {
  Make({});
  const std::vector<double> at_first = *session_->GetVariable("fc1.weight");
  EXPECT_EQ(fake_.Count("cuMemcpyDtoHAsync"), 0) << "nothing has changed it yet";
  Step();
  const std::vector<double> trained = *session_->GetVariable("fc1.weight");
  EXPECT_NE(trained, at_first);
  EXPECT_EQ(session_->SetVariable("fc1.weight", {1, 2}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*session_->GetVariable("fc1.weight"), trained);
  ASSERT_TRUE(session_->SetVariable("fc1.weight", at_first).ok());
  EXPECT_EQ(*session_->GetVariable("fc1.weight"), at_first);
  ASSERT_TRUE(session_->SetLearningRate(0).ok());
  const auto momentum = session_->FindVariable("fc1.weight/momentum");
  if (momentum.ok()) std::memset(momentum->data, 0, static_cast<size_t>(momentum->type->size_bytes()));
  Step();
  EXPECT_EQ(*session_->GetVariable("fc1.weight"), at_first) << "what was set went to the device";
}

TEST_F(CudaRuns, BoundBuffersAreTheDevicesAndMayChangeBetweenSteps) {
  Make({.bound = {"image"}});
  const auto device = OpenFake(fake_);
  const int64_t count = 4 * 784;
  std::vector<std::byte*> blocks;
  std::vector<float> pixels(static_cast<size_t>(count), 0.25F);
  for (int i = 0; i < 2; ++i) {
    blocks.push_back(*device->Allocate(count * 4));
    std::memcpy(blocks.back(), pixels.data(), pixels.size() * 4);  // the pretended device's memory is the host's
    pixels.assign(pixels.size(), 0.75F);
  }
  const auto run_on = [&](std::byte* block) {
    EXPECT_TRUE(session_->program(0).Bind("image", {.data = block, .elements = count}).ok());
    EXPECT_TRUE(session_->Feed("label", {0, 1, 2, 3}).ok());
    const absl::Status status = session_->Run();
    EXPECT_TRUE(status.ok()) << status;
    return *session_->FetchScalar("loss");
  };
  ASSERT_TRUE(session_->SetLearningRate(0).ok());
  const double first = run_on(blocks[0]);
  EXPECT_EQ(run_on(blocks[0]), first);
  EXPECT_NE(run_on(blocks[1]), first);
  EXPECT_EQ(run_on(blocks[0]), first);
  EXPECT_EQ(fake_.Count("cuGraphExecUpdate"), 2);
  EXPECT_EQ(fake_.Count("cuGraphInstantiate"), 1) << "only addresses have changed";
  const absl::Status astray = session_->program(0).Bind("image", {.data = blocks[0] + 64, .elements = count});
  EXPECT_THAT(std::string(astray.message()), HasSubstr("at a multiple of 256 bytes"));
  for (std::byte* const block : blocks) device->Free(block);
}

TEST_F(CudaRuns, LargeOutputsAreCopiedWhenTheyAreAskedFor) {
  absl::StatusOr<LoadedNetwork> loaded = LoadModel("models/mlp.pbtxt");
  ASSERT_TRUE(loaded.ok());
  const How how{.training = false, .batch = 64};
  CompileOptions options{
      .device = {Device::Kind::kCuda}, .batch = 64, .training = false, .threads = 1, .fetch = {"fc1"}};
  absl::StatusOr<Compiled> compiled = Compile(loaded->network, loaded->source_map, OpsWithHostKernels(), options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  UseHostKernels(fake_, &*compiled);
  session_ = NewSession(One(*std::move(compiled)), how, OpenFake(fake_)).value();
  Step();
  fake_.ClearCalls();
  const std::vector<double> values = *session_->Fetch("fc1");
  EXPECT_EQ(values.size(), 64U * 256);
  EXPECT_EQ(fake_.Count("cuMemcpyDtoHAsync"), 1);
  EXPECT_EQ(*session_->Fetch("fc1"), values);
  EXPECT_EQ(fake_.Count("cuMemcpyDtoHAsync"), 1) << "it is here already";
}

TEST_F(CudaRuns, StepsAreTimedOnTheDevice) {
  Make({.streams = 2});
  std::vector<StepTime> times(session_->compiled().executable.steps.size());
  session_->executor().SetTimes(times.data());
  Step();
  for (const StepTime& time : times) {
    EXPECT_LE(time.turn_ns, time.begin_ns);
    EXPECT_LT(time.begin_ns, time.end_ns);
  }
  session_->executor().SetTimes(nullptr);
  Step();
  EXPECT_EQ(fake_.Count("cuGraphLaunch"), 0) << "updates that run together are loaded only now";
  Step();
  EXPECT_EQ(fake_.Count("cuGraphLaunch"), 1) << "timed steps are asked for op by op";
}

TEST(CudaSessions, ProgramsShareVariablesAndTheStepArena) {
  FakeCuda fake;
  const LoadedNetwork loaded = LoadModel("models/mlp.pbtxt").value();
  std::vector<Compiled> both;
  both.push_back(CompileForFake(loaded, {}, fake).value());
  both.push_back(CompileForFake(loaded, {.training = false, .batch = 8}, fake).value());
  const auto session = NewSession(std::move(both), {}, OpenFake(fake)).value();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(FeedRandom(*session, OpRegistry::Builtin(), 3).ok());
    ASSERT_TRUE(session->Run().ok());
    ASSERT_TRUE(session->program(1).Feed("image", std::vector<double>(8 * 784, 0.5)).ok());
    ASSERT_TRUE(session->program(1).Feed("label", std::vector<double>(8, 1)).ok());
    ASSERT_TRUE(session->Run(1).ok());
    EXPECT_EQ(session->FetchScalar("loss").status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(session->program(1).FetchScalar("loss").ok());
  }
  EXPECT_EQ(fake.Count("cuStreamBeginCapture"), 2) << "one graph each";
}

TEST(CudaSessions, WhatIsForTheCpuIsRefused) {
  FakeCuda fake;
  const LoadedNetwork loaded = LoadModel("models/mlp.pbtxt").value();
  const auto refusal = [&](const How& how, const SessionOptions& options) {
    return std::string(Session::Create(CompileForFake(loaded, how, fake).value(), options).status().message());
  };
  const auto device = OpenFake(fake);
  EXPECT_THAT(refusal({}, {.engine = ExecutorKind::kSerial, .poison = true, .cuda_device = device}),
              HasSubstr("compute-sanitizer"));
  EXPECT_THAT(refusal({}, {.engine = ExecutorKind::kSerial, .check_access = true, .cuda_device = device}),
              HasSubstr("checking accesses is for the CPU"));
  EXPECT_THAT(refusal({.strategy = "dynamic"}, {.engine = ExecutorKind::kReplay, .cuda_device = device}),
              HasSubstr("expected planned memory"));
  std::vector<Compiled> mixed;
  mixed.push_back(CompileForFake(loaded, {}, fake).value());
  mixed.push_back(CompileForCpu(loaded, {}).value());
  EXPECT_THAT(std::string(Session::Create(std::move(mixed), {}).status().message()),
              HasSubstr("expected cuda:0, found cpu:0"));
}

TEST(CudaSessions, AnOpWithoutAKernelIsNamedWithItsPlace) {
  OpRegistry registry;
  for (const OpDef* op : OpRegistry::Builtin().all()) {
    OpDef without = *op;
    std::erase_if(without.kernels, [](const KernelRow& row) { return row.device == kOnCuda; });
    ASSERT_TRUE(registry.AddAll("test", {without}).ok());
  }
  const LoadedNetwork loaded = LoadModel("models/mlp.pbtxt").value();
  const absl::Status status =
      Compile(loaded.network, loaded.source_map, registry, {.device = {Device::Kind::kCuda}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("models/mlp.pbtxt:8:1: layer \"fc1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no CUDA kernel for dense"));
}

}  // namespace
}  // namespace snug::core
