// A device that all tests of a program share: opening one takes a real GPU a third of a second.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "engine/cuda/cuda_device.h"

namespace snug::core {

// Thread-compatible.
class SharedDevice {
 public:
  using Device = std::shared_ptr<const cuda::CudaDevice>;
  explicit SharedDevice(std::function<absl::StatusOr<Device>()> open) : open_(std::move(open)) {}

  // Opens it when it is first asked for, and again only where a test has lost it to the process, as a kernel that
  // strays does. What could not be opened is not tried again.
  absl::StatusOr<Device> Get() {
    if (opened_.has_value() && opened_->ok() && !(**opened_)->FreeBytes().ok()) opened_.reset();
    if (!opened_.has_value()) opened_ = open_();
    return *opened_;
  }

 private:
  const std::function<absl::StatusOr<Device>()> open_;
  std::optional<absl::StatusOr<Device>> opened_;
};

}  // namespace snug::core
