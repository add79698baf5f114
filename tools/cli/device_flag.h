// `--device`: where steps run. The one place in the command that knows which backends there are.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "engine/base/device.h"
#include "tools/cli/flags.h"

namespace snug::cli {

void AddDeviceFlag(Flags& flags, std::string* text);
// InvalidArgument where this build or this machine has no such device.
absl::StatusOr<Device> OpenDevice(const std::string& text);

}  // namespace snug::cli
