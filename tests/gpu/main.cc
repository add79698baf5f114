// Of snug_gpu_test: GoogleTest's main, and the op conformance suite, a test for each case: `Cuda.relu/vector/float32`.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "engine/cuda/cuda_launch.h"
#include "tests/gpu/device_memory.h"
#include "tests/gpu/test_device.h"
#include "tests/ops/conformance.h"
#include "tests/testing/node_runner.h"
#include "tests/testing/sample_values.h"

namespace snug::core::test {
namespace {

class CudaConformanceTest : public OnDevice {
 public:
  explicit CudaConformanceTest(ConformanceCase c) : case_(std::move(c)) {}
  void TestBody() override {
    const std::unique_ptr<cuda::CudaStream> stream = cuda::CudaStream::Create(device()).value();
    const cuda::LaunchContext context(*stream);
    DeviceMemory memory(*stream);
    SetCudaRun({.context = &context,
                .synchronize = [&memory] { return memory.Return(); },
                .place = [&memory](void* host, int64_t bytes) { return memory.Place(host, bytes); },
                // No failure, as our own kernel has served; but what the library was to do is not tested.
                .refused =
                    [](absl::string_view kernel, const absl::Status& why) {
                      RecordProperty("refused", absl::StrCat(kernel, ": ", why.message()));
                    }});
    for (const std::string& failure : CheckCuda(OpRegistry::Builtin(), case_)) {
      ADD_FAILURE() << case_.Name() << " (seed " << SampleSeed(*case_.op, *case_.sample) << "): " << failure;
    }
    SetCudaRun({});
  }

 private:
  ConformanceCase case_;
};

void RegisterConformanceTests() {
  static const auto* const samples = new std::deque<OpSamples>(CollectSamples(OpRegistry::Builtin()));
  for (const ConformanceCase& c : CasesOf(*samples)) {
    if (absl::StartsWith(c.op->name, "fused") && !CanCompileKernels().ok()) continue;
    if (c.op->KernelsOn(kOnCuda).empty() || !c.sample->infer_error().empty() || !c.sample->run_error().empty())
      continue;
    testing::RegisterTest("Cuda", c.Name().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [c]() -> OnDevice* { return new CudaConformanceTest(c); });
  }
}

}  // namespace
}  // namespace snug::core::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  snug::core::test::RegisterConformanceTests();
  return RUN_ALL_TESTS();
}
