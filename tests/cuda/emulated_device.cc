// The device of snug_cuda_test is pretended, and the processor runs its CUDA kernels.
#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/emulation/generated.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/gpu/test_device.h"

namespace snug::core {

TestDevice OpenTestDevice() {
  const auto fake = std::make_shared<cuda::FakeCuda>(
      cuda::FakeOptions{.kernels = cuda::emulation::BindLaunch, .sources = cuda::emulation::BindSource});
  return {.world = fake, .device = cuda::CudaDevice::Open(fake->api(), 0).value(), .slow = true};
}

absl::Status CanCompileKernels() { return absl::OkStatus(); }  // g++ compiles them

}  // namespace snug::core
