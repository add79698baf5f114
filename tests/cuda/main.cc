// GoogleTest's main, and the op conformance suite on a pretended device whose CUDA kernels the processor runs. There is
// one test for each case, `Cuda.relu/vector/float32`.
#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "engine/base/status.h"
#include "engine/cuda/cuda_launch.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/emulation/generated.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/ops/conformance.h"
#include "tests/testing/node_runner.h"
#include "tests/testing/sample_values.h"

namespace snug::core::test {
namespace {

// The device, for as long as a test runs. There can be one at a time.
class Emulated {
 public:
  explicit Emulated(cuda::FakeLibraries libraries = cuda::FakeLibraries::kServe)
      : fake_({.any_address = true,
               .kernels = cuda::emulation::BindLaunch,
               .sources = cuda::emulation::BindSource,
               .libraries = libraries}) {}
  absl::Status Open() {
    SNUG_ASSIGN_OR_RETURN(auto device, cuda::CudaDevice::Open(fake_.api(), 0));
    SNUG_ASSIGN_OR_RETURN(stream_, cuda::CudaStream::Create(std::move(device)));
    context_ = std::make_unique<cuda::LaunchContext>(*stream_);
    SetCudaRun({.context = context_.get(), .synchronize = [this] { return stream_->Synchronize(); }});
    return absl::OkStatus();
  }
  cuda::FakeCuda& fake() { return fake_; }

 private:
  cuda::FakeCuda fake_;
  std::unique_ptr<cuda::CudaStream> stream_;
  std::unique_ptr<cuda::LaunchContext> context_;
};

class CudaConformanceTest : public ::testing::Test {
 public:
  explicit CudaConformanceTest(ConformanceCase c) : case_(std::move(c)) {}
  void TestBody() override {
    std::optional<Emulated> device(std::in_place);
    ASSERT_TRUE(device->Open().ok());
    if (!case_.sample->run_error().empty()) {  // the kernel cannot tell anybody, but nothing else may happen
      EXPECT_TRUE(RunCuda(OpRegistry::Builtin(), case_).ok());
      return;
    }
    for (const std::string& failure : CheckCuda(OpRegistry::Builtin(), case_)) {
      ADD_FAILURE() << case_.Name() << " (seed " << SampleSeed(*case_.op, *case_.sample) << "): " << failure;
    }
    if (case_.dtype == DType::kFloat32 && case_.layout.plain()) CheckFailures(device->fake());
    device.reset();
    const std::vector<const KernelRow*> rows = case_.op->KernelsOn(kOnCuda);
    const bool by_library = absl::c_any_of(rows, [](const KernelRow* row) { return !row->library.empty(); });
    if (by_library) CheckWithFewerLibraries();
  }

 private:
  // If a library refuses, or is not there, our own kernel serves within what was prepared for the library's. It adds
  // the bias if the library does not.
  void CheckWithFewerLibraries() {
    for (const cuda::FakeLibraries libraries :
         {cuda::FakeLibraries::kServeUnfused, cuda::FakeLibraries::kRefuse, cuda::FakeLibraries::kMissing}) {
      Emulated device(libraries);
      ASSERT_TRUE(device.Open().ok());
      for (const std::string& failure : CheckCuda(OpRegistry::Builtin(), case_)) {
        ADD_FAILURE() << case_.Name() << " with fewer libraries: " << failure;
      }
    }
  }

  // Whichever launch, clearing or copy fails, the kernel says so.
  void CheckFailures(cuda::FakeCuda& fake) {
    for (const char* call : {"cudaLaunchKernel", "cuLaunchKernel", "cuMemsetD8Async", "cuMemcpyDtoDAsync",
                             "cublasLtMatmul", "cudnnConvolutionForward", "cudnnConvolutionBiasActivationForward",
                             "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter"}) {
      for (int64_t n = 0;; ++n) {
        fake.FailCall(n, call);
        const absl::Status status = RunCuda(OpRegistry::Builtin(), case_);
        const bool has_failed = fake.has_failed();
        fake.FailCall(-1);
        if (!has_failed) break;
        EXPECT_FALSE(status.ok()) << case_.Name() << ": " << call << " " << n
                                  << " failed, and the kernel did not say so";
      }
    }
  }

  ConformanceCase case_;
};

void RegisterConformanceTests() {
  static const auto* const samples = new std::deque<OpSamples>(CollectSamples(OpRegistry::Builtin()));
  for (const ConformanceCase& c : CasesOf(*samples)) {
    if (c.op->KernelsOn(kOnCuda).empty() || !c.sample->infer_error().empty()) continue;
    // These are as large as one kernel of the processor's needs. A GPU's are the same for smaller ones, which are
    // emulated in a tenth of the time.
    if (absl::StartsWith(c.sample->name(), "winograd")) continue;
    ::testing::RegisterTest("Cuda", c.Name().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [c]() -> ::testing::Test* { return new CudaConformanceTest(c); });
  }
}

TEST(CudaKernels, EveryOpHasOne) {
  std::string missing;
  for (const OpDef* op : OpRegistry::Builtin().all()) {
    // Only programs that keep what is derived have these, which are the processor's.
    if (op->name == "depthwise_block" || op->name == "conv_add") continue;
    // Their passes, too, are for the processor.
    if (absl::StartsWith(op->name, "batch_norm_silu") || absl::StartsWith(op->name, "max_pool_half_bytes")) continue;
    if (op->name == "conv_statistics" || op->name == "conv_grad_input_sums") continue;
    if (op->name == "batch_norm_grad_input") continue;
    if (op->name == "dense_grad_input_gelu") continue;  // of large products (passes/fuse_slopes.cc)
    // The passes that make these are for the processor.
    const bool as_made = absl::StartsWith(op->name, "dense_") || absl::StartsWith(op->name, "embedding_");
    if (as_made && absl::EndsWith(op->name, "_update")) continue;
    // So are gradients from outputs, and the loss in blocks of rows.
    constexpr absl::string_view kOfOptions[] = {
        "batch_norm_from_output_grad", "batch_norm_output_scales", "dense_cross_entropy",
        "gelu_from_output_grad",       "gelu_with_side",           "layer_norm_from_output_grad",
        "layer_norm_invertible"};
    if (absl::c_linear_search(kOfOptions, op->name)) continue;
    // So are lists of rows: on a GPU gradients of tables stay whole (engine/compile/differentiate/row_gradients.h).
    if (absl::EndsWith(op->name, "_rows")) continue;
    if (op->plain() != nullptr && op->KernelsOn(kOnCuda).empty()) missing += " " + std::string(op->name);
  }
  EXPECT_EQ(missing, "");
}

}  // namespace
}  // namespace snug::core::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  setenv("SNUG_KERNEL_CACHE", "off", 1);  // pretended code must not be kept
  snug::core::test::RegisterConformanceTests();
  return RUN_ALL_TESTS();
}
