#include "tools/cli/flags/roofline_flag.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "engine/base/status.h"

namespace snug::core::cli {

void RooflineFlag::AddTo(Flags& flags, const std::string& what) {
  flags.Add("roofline", "",
            absl::StrCat(
                what, ", and how near to its roofline it would be. --roofline=", absl::StrJoin(DeviceModelNames(), "|"),
                ", or a file with a device's numbers (proto/device_model.proto); default: the GPU that is "
                "there, or h200 if there is none; needs --device=cuda"),
            [this](const std::string& value) {
              device_ = value;
              return absl::OkStatus();
            });
}

absl::StatusOr<DeviceModel> RooflineFlag::Model(const Device& steps_on, const std::string& gpu) const {
  if (steps_on.kind != Device::Kind::kCuda) {
    return absl::InvalidArgumentError("--roofline is about a GPU's kernels: expected --device=cuda");
  }
  std::string name = *device_;
  if (name.empty()) name = gpu.empty() ? "h200" : DeviceModelFor(gpu);
  if (name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--roofline: no numbers are known of this GPU, \"", gpu,
                                                   "\": expected --roofline=FILE with them, or one of ",
                                                   absl::StrJoin(DeviceModelNames(), ", "), " to compare with"));
  }
  absl::StatusOr<DeviceModel> model = FindDeviceModel(name);
  SNUG_RETURN_IF_ERROR(Annotate(model.status(), "--roofline"));
  return model;
}

}  // namespace snug::core::cli
