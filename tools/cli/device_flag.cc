#include "tools/cli/device_flag.h"

#include <absl/strings/str_cat.h>

#include <memory>
#include <vector>

#include "engine/base/has_cuda.h"
#include "engine/base/status.h"
#if SNUG_HAS_CUDA
#include "engine/cuda/cuda_device.h"
#endif

namespace snug::cli {

void AddDeviceFlag(Flags& flags, std::string* text) {
  flags.Add("device", text,
            "where steps run: cpu (default), or cuda[:N], the N-th GPU; `snug doctor` says what is there");
}

namespace {

// What there is of CUDA.
std::string FindCuda() {
#if SNUG_HAS_CUDA
  const absl::StatusOr<std::shared_ptr<const cuda::Api>> api = cuda::Api::Load();
  if (!api.ok()) return std::string(api.status().message());
  const absl::StatusOr<std::vector<cuda::DeviceInfo>> devices = cuda::ListDevices(**api);
  if (!devices.ok()) return std::string(devices.status().message());
  return absl::StrCat(devices->size(), devices->size() == 1 ? " GPU was found" : " GPUs were found");
#else
  return "it was built without CUDA";
#endif
}

}  // namespace

absl::StatusOr<Device> OpenDevice(const std::string& text) {
  const absl::StatusOr<Device> device = ParseDevice(text);
  if (!device.ok()) return Annotate(device.status(), "--device");
  if (device->kind == Device::Kind::kCpu) return device;
  return absl::InvalidArgumentError(absl::StrCat("--device=", text, ": expected cpu, as this build runs steps on the ",
                                                 "processor only (", FindCuda(), "); `snug doctor` tells more"));
}

}  // namespace snug::cli
