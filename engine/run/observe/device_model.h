// What a GPU can do, in numbers, for predictions (engine/run/observe/roofline.h). The numbers' meanings are in
// proto/device_model.proto, which is also the form of files.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

namespace snug::core {

struct DeviceModel {
  std::string name;
  int processors = 0;
  double dram_bytes_per_second = 0, l2_bytes_per_second = 0, l2_bytes = 0;
  double bfloat16_flops = 0, tf32_flops = 0, float32_flops = 0, float64_flops = 0;  // in a second
  double streaming_share = 0, scattered_share = 0;
  double library_product_share = 0, library_convolution_share = 0, own_tensor_core_share = 0, own_share = 0;
  double launch_seconds = 0, latency_seconds = 0, step_seconds = 0;
};

// Returns the names of the devices that are known.
std::vector<std::string> DeviceModelNames();
// `device` is one of these names, or a file. Fails with InvalidArgument, and what is wrong.
absl::StatusOr<DeviceModel> FindDeviceModel(const std::string& device);
// Returns the known device that a GPU's name stands for, such as "NVIDIA H100 80GB HBM3"; empty if none does.
std::string DeviceModelFor(absl::string_view gpu);

}  // namespace snug::core
