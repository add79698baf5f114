// Of snug_gpu_test: the device SNUG_TEST_DEVICE (0 unless it is set) of this machine.
#include <cstdlib>
#include <iostream>

#include "engine/base/status.h"
#include "engine/cuda/cuda_compile.h"
#include "tests/gpu/shared_device.h"
#include "tests/gpu/test_device.h"

namespace snug::core {

namespace {

absl::StatusOr<SharedDevice::Device> Open() {
  SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<const cuda::Api> api, cuda::Api::Load());
  const char* const number = std::getenv("SNUG_TEST_DEVICE");
  SNUG_ASSIGN_OR_RETURN(SharedDevice::Device device,
                        cuda::CudaDevice::Open(api, number == nullptr ? 0 : std::atoi(number)));
  std::cout << "on " << device->info().ToString() << "\n";
  return device;
}

}  // namespace

TestDevice OpenTestDevice() {
  static auto* const shared = new SharedDevice(Open);
  const absl::StatusOr<SharedDevice::Device> device = shared->Get();
  if (!device.ok()) return {.missing = std::string(device.status().message())};
  return {.device = *device};
}

absl::Status CanCompileKernels() {
  static const auto* const found = new absl::Status(cuda::FindCompiler());
  return *found;
}

}  // namespace snug::core
