// Opens a device of a pretended CUDA, and tells whether an error says something.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/match.h>
#include <gtest/gtest.h>

#include <memory>

#include "engine/cuda/cuda_device.h"
#include "tests/cuda/fake_cuda.h"

namespace snug::core::cuda {

inline bool Says(const absl::Status& status, absl::string_view text) {
  return absl::StrContains(status.message(), text);
}

inline std::shared_ptr<CudaDevice> OpenDevice(const FakeCuda& fake, int index = 0) {
  absl::StatusOr<std::shared_ptr<CudaDevice>> device = CudaDevice::Open(fake.api(), index);
  EXPECT_TRUE(device.ok()) << device.status();
  return device.ok() ? *device : nullptr;
}

}  // namespace snug::core::cuda
