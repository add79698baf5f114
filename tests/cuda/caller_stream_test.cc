// Steps that run between the work of an embedding program's own stream: they keep its sequence, and the host waits for
// nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_stream.h"
#include "tests/cuda/host_kernels.h"

namespace snug::core {
namespace {

using cuda::FakeCuda;
using testing::HasSubstr;

constexpr int64_t kBatch = 4, kInputs = 6, kClasses = 3;
constexpr int kEmbeddedSteps = 6;

float InputOf(int step, int64_t i) { return static_cast<float>((step * 7 + i * 5) % 11) / 4 - 1; }
std::vector<int32_t> Labels() { return {0, 1, 2, 1}; }

// Returns what steps on these inputs put out if they run one by one on the CPU.
std::vector<std::vector<double>> Truth(const LoadedNetwork& loaded) {
  std::vector<Compiled> all;
  CompileOptions options = OptionsOf({.strategy = "none"});
  options.fetch = {"out"};
  all.push_back(Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options).value());
  const auto session = NewSession(std::move(all), {.engine = ExecutorKind::kSerial}, nullptr).value();
  std::vector<std::vector<double>> outputs;
  for (int step = 0; step < kEmbeddedSteps; ++step) {
    std::vector<double> x;
    for (int64_t i = 0; i < kBatch * kInputs; ++i) x.push_back(InputOf(step, i));
    EXPECT_TRUE(session->Feed("x", x).ok());
    EXPECT_TRUE(session->Feed("y", {0, 1, 2, 1}).ok());
    EXPECT_TRUE(session->Run().ok());
    outputs.push_back(*session->Fetch("out"));
  }
  return outputs;
}

// A program that makes the inputs and reads the outputs on its stream, in buffers of its own.
class Embedding {
 public:
  Embedding(const LoadedNetwork& loaded, const How& how, uint64_t seed) : fake_({.seed = seed}) {
    device_ = OpenFake(fake_);
    stream_ = cuda::CudaStream::Create(device_).value();
    for (std::byte** const buffer : {&x_, &y_, &out_}) *buffer = device_->Allocate(1024).value();
    CompileOptions options = OptionsOf(how);
    options.device = {Device::Kind::kCuda};
    options.bound = {"x", "y", "out"};
    options.fetch = {"out"};
    Compiled compiled = Compile(loaded.network, loaded.source_map, OpsWithHostKernels(), options).value();
    UseHostKernels(fake_, &compiled);
    std::vector<Compiled> all;
    all.push_back(std::move(compiled));
    session_ = NewSession(std::move(all), how, device_).value();
    SNUG_CHECK_OK(session_->program(0).Bind("x", {.data = x_, .elements = kBatch * kInputs}));
    SNUG_CHECK_OK(session_->program(0).Bind("y", {.data = y_, .dtype = DType::kInt32, .elements = kBatch}));
    SNUG_CHECK_OK(session_->program(0).Bind("out", {.data = out_, .elements = kBatch * kClasses}));
  }
  ~Embedding() {
    session_.reset();
    for (std::byte* const buffer : {x_, y_, out_}) device_->Free(buffer);
  }

  // Asks for everything; nothing has to have run yet when it returns.
  absl::Status Step(int step) {
    SNUG_RETURN_IF_ERROR(fake_.Run(stream_->handle(), "produce", [this, step] {
      for (int64_t i = 0; i < kBatch * kInputs; ++i) reinterpret_cast<float*>(x_)[i] = InputOf(step, i);
      std::memcpy(y_, Labels().data(), sizeof(int32_t) * kBatch);
    }));
    SNUG_RETURN_IF_ERROR(session_->Run());
    return fake_.Run(stream_->handle(), "consume", [this] {
      const float* const out = reinterpret_cast<const float*>(out_);
      outputs.emplace_back(out, out + kBatch * kClasses);
      std::memset(x_, 0xff, sizeof(float) * kBatch * kInputs);  // nobody may need x or out any more
      std::memset(out_, 0xff, sizeof(float) * kBatch * kClasses);
    });
  }

  FakeCuda& fake() { return fake_; }
  cuda::CudaStream& stream() { return *stream_; }
  Session& session() { return *session_; }

  std::vector<std::vector<double>> outputs;

 private:
  FakeCuda fake_;
  std::shared_ptr<const cuda::CudaDevice> device_;
  std::unique_ptr<cuda::CudaStream> stream_;
  std::byte *x_ = nullptr, *y_ = nullptr, *out_ = nullptr;
  std::unique_ptr<Session> session_;
};

const std::vector<How>& Ways() {
  static const auto* const ways = new std::vector<How>{
      {},
      {.graph = false},
      {.streams = 2},
      {.streams = 2, .graph = false},
      {.streams = 2, .engine = ExecutorKind::kDynamic},
      {.strategy = "dynamic", .engine = ExecutorKind::kSerial},
      {.strategy = "dynamic", .streams = 2, .engine = ExecutorKind::kDynamic},
  };
  return *ways;
}

TEST(CallersStream, OrdersStepsBetweenItsOwnWork) {
  const LoadedNetwork loaded = LoadModel("tests/data/tiny.pbtxt").value();
  const std::vector<std::vector<double>> truth = Truth(loaded);
  for (const How& how : Ways()) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      Embedding program(loaded, how, seed);
      ASSERT_TRUE(program.session().Follow(program.stream().handle()).ok());
      program.fake().ClearCalls();
      for (int step = 0; step < kEmbeddedSteps; ++step) {
        const absl::Status status = program.Step(step);
        ASSERT_TRUE(status.ok()) << status;
      }
      EXPECT_EQ(program.fake().Count("cuStreamSynchronize") + program.fake().Count("cuEventSynchronize"), 0)
          << how.ToString();
      ASSERT_TRUE(program.stream().Synchronize().ok());
      EXPECT_EQ(program.outputs, truth) << how.ToString() << ", seed " << seed;
      EXPECT_TRUE(program.session().Finish().ok());
    }
  }
}

TEST(CallersStream, IsWaitedForByWhoeverLooks) {
  const LoadedNetwork loaded = LoadModel("tests/data/tiny.pbtxt").value();
  Embedding program(loaded, {}, 3);
  ASSERT_TRUE(program.session().Follow(program.stream().handle()).ok());
  const std::vector<double> before = *program.session().GetVariable("a.weight");
  ASSERT_TRUE(program.Step(0).ok());
  EXPECT_GT(*program.session().FetchScalar("loss"), 0);
  EXPECT_NE(*program.session().GetVariable("a.weight"), before);
}

TEST(CallersStream, IsNotWaitedForToSetWhatTheNextStepUses) {
  const LoadedNetwork loaded = LoadModel("tests/data/tiny.pbtxt").value();
  Embedding program(loaded, {}, 3);
  ASSERT_TRUE(program.session().Follow(program.stream().handle()).ok());
  ASSERT_TRUE(program.Step(0).ok());
  program.fake().ClearCalls();
  ASSERT_TRUE(program.session().SetLearningRate(0.5).ok());
  ASSERT_TRUE(program.Step(1).ok());
  EXPECT_EQ(program.fake().Count("cuStreamSynchronize") + program.fake().Count("cuEventSynchronize"), 0);
}

// Whoever waits first sees that a step failed; the session has to know what it left behind.
TEST(CallersStream, AStepWhoseFailureAnotherSawHasFailedTheSession) {
  const LoadedNetwork loaded = LoadModel("tests/data/tiny.pbtxt").value();
  for (const bool looks : {false, true}) {
    Embedding program(loaded, {}, 3);
    Session& session = program.session();
    ASSERT_TRUE(session.Follow(program.stream().handle()).ok());
    ASSERT_TRUE(program.Step(0).ok());
    program.fake().FailCall(0, "cuStreamSynchronize");
    EXPECT_FALSE(session.FetchScalar("loss").ok());
    // Variables that are half changed are neither trained on nor kept.
    EXPECT_FALSE(looks ? session.GetVariable("a.weight").ok() : program.Step(1).ok());
    EXPECT_TRUE(session.failed());
    EXPECT_EQ(program.Step(1).code(), absl::StatusCode::kFailedPrecondition);
    for (const Variable& variable : session.compiled().graph.variables()) {
      ASSERT_TRUE(session.FindVariable(variable.name, HostAccess::kWrite).ok()) << variable.name;
    }
    session.VariablesRestored();
    EXPECT_TRUE(program.Step(1).ok());
    EXPECT_TRUE(session.Finish().ok());
  }
}

TEST(CallersStream, EveryCallFailsOnce) {
  const LoadedNetwork loaded = LoadModel("tests/data/tiny.pbtxt").value();
  int64_t n = 0;
  for (;; ++n) {
    ASSERT_LT(n, 1000) << "the calls come to an end";
    Embedding program(loaded, {.streams = 2}, 1);
    program.fake().ClearCalls();
    program.fake().FailCall(n);
    absl::Status status = program.session().Follow(program.stream().handle());
    for (int step = 0; step < 3 && status.ok(); ++step) status = program.Step(step);
    status.Update(program.session().Finish());
    const bool has_failed = program.fake().has_failed();
    program.fake().FailCall(-1);
    if (!has_failed) break;
    const std::string failed = program.fake().calls()[static_cast<size_t>(n)];
    const bool reports = failed != "cuGraphDestroy" && failed != "cuGraphExecDestroy" && failed != "cuEventDestroy";
    EXPECT_TRUE(!reports || !status.ok()) << failed << ", call " << n;
    EXPECT_TRUE(status.ok() || status.message().find(failed) != absl::string_view::npos) << failed << ": " << status;
  }
  EXPECT_GT(n, 30) << "the calls of three steps";
}

TEST(CallersStream, IsForCudaAlone) {
  const LoadedNetwork loaded = LoadModel("tests/data/tiny.pbtxt").value();
  std::vector<Compiled> all;
  all.push_back(CompileForCpu(loaded, {}).value());
  const auto session = NewSession(std::move(all), {}, nullptr).value();
  EXPECT_THAT(std::string(session->Follow(nullptr).message()),
              HasSubstr("expected a session on cuda, found one on cpu"));
}

}  // namespace
}  // namespace snug::core
