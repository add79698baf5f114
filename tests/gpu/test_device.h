// The device that this folder's suites run on: a real one in snug_gpu_test, which skips them where there is none; the
// pretended one with emulated kernels in snug_cuda_test.
#pragma once

#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/cuda/cuda_device.h"

namespace snug::core {

struct TestDevice {
  std::shared_ptr<void> world;                     // what the device is of, unless tests share it; ends last
  std::shared_ptr<const cuda::CudaDevice> device;  // null: there is none
  std::string missing;                             // why
  bool slow = false;                               // suites do less
};
TestDevice OpenTestDevice();

// Whether kernels can be compiled at run time; otherwise why not, and networks are tested without fusion.
absl::Status CanCompileKernels();

// A suite's base: `device()` is there when a test runs.
class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    opened_ = OpenTestDevice();
    if (opened_.device == nullptr) GTEST_SKIP() << "SKIPPED: no CUDA device: " << opened_.missing;
  }
  const std::shared_ptr<const cuda::CudaDevice>& device() const { return opened_.device; }
  bool slow() const { return opened_.slow; }

 private:
  TestDevice opened_;
};

}  // namespace snug::core
