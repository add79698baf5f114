// Code that NVRTC made and the driver has loaded, and launches of its kernels.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>
#include <string>

#include "engine/cuda/cuda_launch.h"

struct CUlib_st;

namespace snug::core::cuda {

// Immutable. It serves every device of the generation that it was compiled for.
class CudaCode {
 public:
  // `name` is for messages.
  static absl::StatusOr<std::shared_ptr<const CudaCode>> Load(std::shared_ptr<const Api> api, std::string name,
                                                              const std::string& code);
  ~CudaCode();
  CudaCode(const CudaCode&) = delete;
  CudaCode& operator=(const CudaCode&) = delete;

  // Launches the kernel `entry`, whose one argument is a struct of these words. Without blocks nothing is done.
  absl::Status Launch(const CudaStream& stream, const char* entry, const LaunchShape& shape,
                      absl::Span<const uint64_t> argument) const;

 private:
  CudaCode(std::shared_ptr<const Api> api, std::string name, CUlib_st* handle)
      : api_(std::move(api)), name_(std::move(name)), handle_(handle) {}

  const std::shared_ptr<const Api> api_;
  const std::string name_;
  CUlib_st* const handle_;
};

}  // namespace snug::core::cuda
