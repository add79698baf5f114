#include "engine/base/device.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

namespace snug::core {

std::string Device::ToString() const {
  return (kind == Kind::kCpu ? "cpu:" : "cuda:") + std::to_string(static_cast<int>(index));
}

absl::StatusOr<Device> ParseDevice(absl::string_view text) {
  constexpr int32_t kMostDevices = 1024;
  if (text == "cpu") return Device{};
  absl::string_view rest = text;
  int32_t index = 0;
  if (absl::ConsumePrefix(&rest, "cuda") &&
      (rest.empty() ||
       (absl::ConsumePrefix(&rest, ":") && absl::SimpleAtoi(rest, &index) && index >= 0 && index < kMostDevices))) {
    return Device{Device::Kind::kCuda, static_cast<int16_t>(index)};
  }
  return absl::InvalidArgumentError(absl::StrCat("expected cpu, cuda or cuda:N, found \"", text, "\""));
}

}  // namespace snug::core
