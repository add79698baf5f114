// --roofline[=DEVICE]: predictions of how long kernels take on a GPU.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>

#include "engine/base/device.h"
#include "engine/run/observe/device_model.h"
#include "tools/cli/flags/flags.h"

namespace snug::core::cli {

class RooflineFlag {
 public:
  // `what` begins the help.
  void AddTo(Flags& flags, const std::string& what);
  bool asked() const { return device_.has_value(); }
  // `steps_on` is where the steps run, or would. `gpu` is the name of the device that is there, if there is one.
  absl::StatusOr<DeviceModel> Model(const Device& steps_on, const std::string& gpu = "") const;

 private:
  std::optional<std::string> device_;  // empty: the one that is there, or, if there is none, an H200
};

}  // namespace snug::core::cli
