// Says what kernels run on. Which kernels there are, and which of them is fastest, depends on this.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "engine/base/device.h"

namespace snug::core {

namespace cuda {
struct DeviceInfo;
}

struct Platform {
  std::string device;        // "cpu", "NVIDIA H200"
  std::string instructions;  // what our own loops use: "avx512", or "sm_90"
  std::string library;       // "oneDNN 2.6.0", "cuBLASLt 13.0.2, cuDNN 9.13, NVRTC 13.0"; "none"

  friend bool operator==(const Platform&, const Platform&) = default;
};

Platform CpuPlatform();
// An error where SNUG_ISA says something that is no instruction set; kernels go by the machine's then. A program checks
// it before anything depends on it.
absl::Status CheckIsaVariable();
Platform CudaPlatform(const cuda::DeviceInfo& device);  // only in builds with CUDA
// Fails where there is no such device.
absl::StatusOr<Platform> PlatformOf(const Device& device);

}  // namespace snug::core
