#include "tools/cli/flags/roofline_flag.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "engine/base/status.h"

namespace snug::core::cli {

void RooflineFlag::AddTo(Flags& flags, const std::string& what) {
  flags.Add("roofline", "",
            absl::StrCat(
                what, ", and how near to its roofline it would be. --roofline=", absl::StrJoin(DeviceModelNames(), "|"),
                ", or a file with a device's numbers (proto/device_model.proto); needs --device=cuda"),
            [this](const std::string& value) {
              device_ = value;
              return absl::OkStatus();
            });
}

absl::StatusOr<DeviceModel> RooflineFlag::Model(const Device& steps_on, const std::string& gpu) const {
  if (steps_on.kind != Device::Kind::kCuda) {
    return absl::InvalidArgumentError("--roofline is about a GPU's kernels: expected --device=cuda");
  }
  absl::StatusOr<DeviceModel> model = FindDeviceModel(device_->empty() ? DeviceModelFor(gpu) : *device_);
  SNUG_RETURN_IF_ERROR(Annotate(model.status(), "--roofline"));
  return model;
}

}  // namespace snug::core::cli
