#include "engine/run/observe/device_model.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <google/protobuf/text_format.h>

#include "engine/base/status.h"
#include "engine/compile/message_file.h"
#include "proto/device_model.pb.h"

namespace snug::core {
namespace {

// The first nine numbers are from NVIDIA's data sheets (tensor cores without sparsity), except l2_gb_per_second, which
// others have measured. The shares, and the times at the end, are assumptions until a device has been measured
// (bundle-run ceilings, profile), and where they come from is this:
//
// - streaming: copies that were published for H100 reach 3.0 of 3.35 TB/s, those for A100 1.75 of 2.04.
// - scattered: half a line of 128 bytes is of use in a typical strided read, and less is in flight.
// - library_product: the best shapes of cuBLAS reach about 0.8 on H100, where its power limit binds, and 0.87 on A100;
//   typical large ones a little less. L4 is held by its 72 W.
// - library_convolution: an implicit product reads its data through more indices, and cuDNN serves many shapes on
//   Hopper with kernels for mma.sync, which reaches at most 0.62 of what Hopper's own instructions do. For H100 and
//   H200 it was 0.55, and was lowered because that predicts more of ResNet-50 than MLPerf's entries reach.
// - own_tensor_core: mma.sync as well, in kernels that are simpler than the libraries'; on older devices it is the way.
// - own: products without tensor cores in tiles of shared memory, without tuning by device.
// - launch and latency: graphs of empty kernels that depend on each other take 1.2 to 1.5 us for each on A100 and H100;
//   a load from DRAM takes 0.6 to 0.8 us.
constexpr const char* kKnown[] = {
    R"(name: "h200" processors: 132
       dram_gb_per_second: 4800 l2_gb_per_second: 5500 l2_mb: 50
       bfloat16_tflops: 989 tf32_tflops: 494 float32_tflops: 67 float64_tflops: 34
       streaming_share: 0.9 scattered_share: 0.45 library_product_share: 0.72 library_convolution_share: 0.35
       own_tensor_core_share: 0.3 own_share: 0.3 launch_us: 1.3 latency_us: 0.9 step_us: 15)",
    R"(name: "h100" processors: 132
       dram_gb_per_second: 3350 l2_gb_per_second: 5500 l2_mb: 50
       bfloat16_tflops: 989 tf32_tflops: 494 float32_tflops: 67 float64_tflops: 34
       streaming_share: 0.9 scattered_share: 0.45 library_product_share: 0.72 library_convolution_share: 0.35
       own_tensor_core_share: 0.3 own_share: 0.3 launch_us: 1.3 latency_us: 0.9 step_us: 15)",
    R"(name: "a100" processors: 108
       dram_gb_per_second: 2039 l2_gb_per_second: 4500 l2_mb: 40
       bfloat16_tflops: 312 tf32_tflops: 156 float32_tflops: 19.5 float64_tflops: 9.7
       streaming_share: 0.86 scattered_share: 0.43 library_product_share: 0.82 library_convolution_share: 0.62
       own_tensor_core_share: 0.5 own_share: 0.35 launch_us: 1.4 latency_us: 0.9 step_us: 15)",
    R"(name: "l4" processors: 58
       dram_gb_per_second: 300 l2_gb_per_second: 1800 l2_mb: 48
       bfloat16_tflops: 121 tf32_tflops: 60 float32_tflops: 30 float64_tflops: 0.47
       streaming_share: 0.86 scattered_share: 0.45 library_product_share: 0.5 library_convolution_share: 0.42
       own_tensor_core_share: 0.4 own_share: 0.3 launch_us: 1.4 latency_us: 0.9 step_us: 15)",
};

absl::StatusOr<DeviceModel> FromMessage(const proto::DeviceModel& message) {
  const google::protobuf::Descriptor& fields = *message.GetDescriptor();
  for (int i = 0; i < fields.field_count(); ++i) {
    if (!message.GetReflection()->HasField(message, fields.field(i))) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected all that is said of a device, found no ", fields.field(i)->name()));
    }
  }
  const DeviceModel model = {.name = message.name(),
                             .processors = message.processors(),
                             .dram_bytes_per_second = message.dram_gb_per_second() * 1e9,
                             .l2_bytes_per_second = message.l2_gb_per_second() * 1e9,
                             .l2_bytes = message.l2_mb() * 1e6,
                             .bfloat16_flops = message.bfloat16_tflops() * 1e12,
                             .tf32_flops = message.tf32_tflops() * 1e12,
                             .float32_flops = message.float32_tflops() * 1e12,
                             .float64_flops = message.float64_tflops() * 1e12,
                             .streaming_share = message.streaming_share(),
                             .scattered_share = message.scattered_share(),
                             .library_product_share = message.library_product_share(),
                             .library_convolution_share = message.library_convolution_share(),
                             .own_tensor_core_share = message.own_tensor_core_share(),
                             .own_share = message.own_share(),
                             .launch_seconds = message.launch_us() * 1e-6,
                             .latency_seconds = message.latency_us() * 1e-6,
                             .step_seconds = message.step_us() * 1e-6};
  for (const double share : {model.streaming_share, model.scattered_share, model.library_product_share,
                             model.library_convolution_share, model.own_tensor_core_share, model.own_share}) {
    if (!(share > 0 && share <= 1)) {
      return absl::InvalidArgumentError(absl::StrCat("expected shares above 0 and at most 1, found ", share));
    }
  }
  for (const double above :
       {static_cast<double>(model.processors), model.dram_bytes_per_second, model.l2_bytes_per_second,
        model.bfloat16_flops, model.tf32_flops, model.float32_flops, model.float64_flops}) {
    if (!(above > 0)) return absl::InvalidArgumentError("expected processors, bandwidths and operations above 0");
  }
  for (const double least : {model.l2_bytes, model.launch_seconds, model.latency_seconds, model.step_seconds}) {
    if (!(least >= 0)) return absl::InvalidArgumentError("expected no number below 0");
  }
  return model;
}

std::vector<DeviceModel> Known() {
  std::vector<DeviceModel> known;
  for (const char* text : kKnown) {
    proto::DeviceModel message;
    SNUG_CHECK(google::protobuf::TextFormat::ParseFromString(text, &message));
    absl::StatusOr<DeviceModel> model = FromMessage(message);
    SNUG_CHECK_OK(model.status());
    known.push_back(*std::move(model));
  }
  return known;
}

}  // namespace

std::vector<std::string> DeviceModelNames() {
  std::vector<std::string> names;
  for (const DeviceModel& model : Known()) names.push_back(model.name);
  return names;
}

absl::StatusOr<DeviceModel> FindDeviceModel(const std::string& device) {
  for (DeviceModel& model : Known()) {
    if (model.name == device) return std::move(model);
  }
  if (!absl::StrContains(device, '.') && !absl::StrContains(device, '/')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a file, or one of ", absl::StrJoin(DeviceModelNames(), ", "), ", found \"", device, "\""));
  }
  proto::DeviceModel message;
  SNUG_RETURN_IF_ERROR(ReadMessageFile(device, "a device's numbers", "bundle-run profile", &message));
  absl::StatusOr<DeviceModel> model = FromMessage(message);
  SNUG_RETURN_IF_ERROR(Annotate(model.status(), device));
  return model;
}

std::string DeviceModelFor(absl::string_view gpu) {
  const std::string lower = absl::AsciiStrToLower(gpu);
  for (const std::string& name : DeviceModelNames()) {
    // "L40S" is no L4, so the name has to end there.
    const size_t at = lower.find(name);
    if (at != std::string::npos &&
        (at + name.size() == lower.size() || !absl::ascii_isalnum(lower[at + name.size()]))) {
      return name;
    }
  }
  return "";
}

}  // namespace snug::core
