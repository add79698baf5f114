// Of snug_gpu_test: the device SNUG_TEST_DEVICE (0 unless it is set) of this machine.
#include <cstdlib>
#include <iostream>

#include "engine/cuda/cuda_compile.h"
#include "tests/gpu/test_device.h"

namespace snug {

TestDevice OpenTestDevice() {
  const absl::StatusOr<std::shared_ptr<const cuda::Api>> api = cuda::Api::Load();
  if (!api.ok()) return {.missing = std::string(api.status().message())};
  const char* const number = std::getenv("SNUG_TEST_DEVICE");
  const absl::StatusOr<std::shared_ptr<cuda::CudaDevice>> device =
      cuda::CudaDevice::Open(*api, number == nullptr ? 0 : std::atoi(number));
  if (!device.ok()) return {.missing = std::string(device.status().message())};
  static const bool said = [&] {
    std::cout << "on " << (*device)->info().ToString() << "\n";
    return true;
  }();
  (void)said;
  return {.device = *device};
}

absl::Status CanCompileKernels() { return cuda::FindCompiler(); }

}  // namespace snug
