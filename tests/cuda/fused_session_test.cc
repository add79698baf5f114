// Sessions of networks with fused nodes: when their kernels are compiled, what happens where that fails, and what
// fusion does to steps and plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_compile.h"
#include "engine/run/session/random_feed.h"
#include "ops/kernels/fused/cuda.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/host_kernels.h"
#include "tests/cuda/networks.h"

namespace snug::core {
namespace {

using cuda::FakeCuda;
using testing::HasSubstr;

class FusedSession : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Session>> Begin(const std::shared_ptr<const cuda::Api>& api) const {
    SNUG_ASSIGN_OR_RETURN(std::shared_ptr<const cuda::CudaDevice> device, cuda::CudaDevice::Open(api, 0));
    SNUG_ASSIGN_OR_RETURN(Compiled compiled, CompileForCuda(loaded_, {}));
    std::vector<Compiled> all;
    all.push_back(std::move(compiled));
    return NewSession(std::move(all), {}, std::move(device));
  }

  const LoadedNetwork loaded_ = LoadModel("tests/data/elementwise.pbtxt").value();
};

TEST_F(FusedSession, CompilesEachSourceOnceBeforeItsFirstStep) {
  FakeCuda fake;
  std::set<std::string> sources;
  const Compiled compiled = CompileForCuda(loaded_, {}).value();
  for (const Step& step : compiled.executable.steps) {
    if (step.kernel->name == kFusedCudaRow)
      sources.insert(static_cast<const FusedKernel*>(step.prepared.get())->source().text);
  }
  EXPECT_GT(sources.size(), 4U);
  {
    const std::unique_ptr<Session> session = Begin(fake.api()).value();
    EXPECT_EQ(fake.Count("nvrtcCompileProgram"), static_cast<int64_t>(sources.size()));
    EXPECT_EQ(fake.Count("nvrtcDestroyProgram"), static_cast<int64_t>(sources.size()));
    ASSERT_TRUE(FeedRandom(*session, OpRegistry::Builtin(), 3).ok());
    fake.ClearCalls();
    ASSERT_TRUE(session->Run().ok());
    EXPECT_GE(fake.Count("cuLaunchKernel"), static_cast<int64_t>(sources.size()));
    for (const char* call : {"nvrtcCreateProgram", "cuLibraryLoadData"}) {
      EXPECT_EQ(fake.Count(call), 0) << call;
    }
  }
  EXPECT_EQ(fake.Leaks(), "");
}

TEST(Compiler, IsThereWhereItCompilesALine) {
  FakeCuda fake;
  EXPECT_TRUE(cuda::TryCompiler(*fake.api()).ok());
  EXPECT_EQ(fake.Count("nvrtcCompileProgram"), 1);
  EXPECT_EQ(fake.Leaks(), "");
}

// Such an NVRTC does not find the files beside it, for example.
TEST(Compiler, ThatCompilesNothingIsNotThereAndSaysWhy) {
  FakeCuda fake;
  for (const char* call : {"nvrtcGetSupportedArchs", "nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetCUBIN"}) {
    fake.FailCall(0, call);
    const absl::Status status = cuda::TryCompiler(*fake.api());
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << call;
    EXPECT_THAT(std::string(status.message()), HasSubstr("NVRTC is there and compiles nothing: ")) << call;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(call) + " failed")) << call;
  }
  EXPECT_EQ(fake.Leaks(), "");
}

TEST_F(FusedSession, SaysWhichCallFailedWhileItBegan) {
  FakeCuda fake;
  ASSERT_TRUE(Begin(fake.api()).ok());
  for (const char* call : {"nvrtcVersion", "nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetCUBINSize",
                           "nvrtcGetCUBIN", "cuLibraryLoadData"}) {
    for (const int64_t n : {0, 1, 3}) {
      fake.FailCall(n, call);
      const absl::Status status = Begin(fake.api()).status();
      ASSERT_TRUE(fake.has_failed()) << call;
      EXPECT_THAT(std::string(status.message()), HasSubstr(call));
      EXPECT_EQ(fake.Leaks(), "") << call;
    }
  }
}

TEST_F(FusedSession, SaysWhichLaunchFailed) {
  FakeCuda fake;
  for (const char* call : {"cuLibraryGetKernel", "cuLaunchKernel"}) {
    const std::unique_ptr<Session> session = Begin(fake.api()).value();
    ASSERT_TRUE(FeedRandom(*session, OpRegistry::Builtin(), 3).ok());
    fake.FailCall(1, call);
    const absl::Status status = session->Run();
    EXPECT_THAT(std::string(status.message()), HasSubstr("launching the kernel of "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(call));
    fake.FailCall(-1);
  }
  EXPECT_EQ(fake.Leaks(), "");
}

TEST_F(FusedSession, WithoutNvrtcIsAnErrorThatSaysWhatToDo) {
  FakeCuda fake;
  std::vector<cuda::LibraryState> libraries = fake.api()->libraries();
  for (cuda::LibraryState& library : libraries) {
    if (library.library == cuda::Library::kNvrtc) library.problem = "NVRTC was not found (no such file)";
  }
  const auto api = std::make_shared<const cuda::Api>(fake.api()->table(), libraries);
  const absl::Status status = Begin(api).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("NVRTC was not found (no such file)"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--disable-passes=fuse_elementwise"));
  EXPECT_EQ(fake.Leaks(), "");
}

// Each op runs by the CPU's plain kernel, so this tests the pass, and the plans for what it made.
TEST_F(FusedSession, HasTheCpusBitsUnderEveryPlan) {
  const absl::StatusOr<Result> truth = TrainOnCpu(loaded_, 3);
  ASSERT_TRUE(truth.ok()) << truth.status();
  uint64_t seed = 0;
  for (const char* strategy : {"none", "both", "best"}) {
    for (const int streams : {1, 3}) {
      FakeCuda fake({.seed = ++seed});
      const How how{.strategy = strategy, .streams = streams};
      Compiled compiled = CompileForFake(loaded_, how, fake).value();
      EXPECT_GT(std::count_if(compiled.executable.steps.begin(), compiled.executable.steps.end(),
                              [&](const Step& step) { return compiled.graph.node(step.node).op == "fused"; }),
                4);
      std::vector<Compiled> all;
      all.push_back(std::move(compiled));
      const std::unique_ptr<Session> session = NewSession(std::move(all), how, OpenFake(fake)).value();
      const absl::StatusOr<Result> found = Train(*session, loaded_, 3);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(found->losses, truth->losses) << how.ToString();
      EXPECT_TRUE(found->state == truth->state) << how.ToString();
    }
  }
}

TEST(FusedPlans, HaveFewerStepsAndNoMoreBytes) {
  for (const char* path : {"tests/data/elementwise.pbtxt", "tests/golden/parity/transformer.pbtxt",
                           "models/mobilenet_v2.pbtxt", "models/resnet20.pbtxt", "models/gpt_bytes.pbtxt"}) {
    const LoadedNetwork loaded = LoadModel(path).value();
    for (const DType precision : {DType::kFloat32, DType::kBFloat16}) {
      for (const char* strategy : {"none", "both"}) {
        CompileOptions options{.device = {Device::Kind::kCuda}, .batch = 2, .precision = precision, .threads = 1};
        options.memory.strategy = strategy;
        const auto fused = Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options);
        options.disabled_passes = {"fuse_elementwise"};
        const auto apart = Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options);
        ASSERT_TRUE(fused.ok() && apart.ok()) << fused.status() << apart.status();
        const std::string what = std::string(path) + " " + std::string(Name(precision)) + " " + strategy;
        EXPECT_LE(fused->executable.steps.size(), apart->executable.steps.size()) << what;
        EXPECT_LE(fused->executable.memory.total_bytes(), apart->executable.memory.total_bytes()) << what;
      }
    }
  }
}

}  // namespace
}  // namespace snug::core
