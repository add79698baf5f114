// `--device`: where steps run. The one place in the command that knows which backends there are.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "engine/base/device.h"
#include "engine/compile/pipeline.h"
#include "tools/cli/flags.h"

namespace snug::cli {

void AddDeviceFlag(Flags& flags, std::string* text);
// FailedPrecondition where this build has no such devices. Whether this machine has one is asked when something is to
// run there: planning needs none.
absl::StatusOr<Device> ParseDeviceFlag(const std::string& text);

// Tells standard error which nodes may give other bits each time, if any.
void SayWhatVaries(const Compiled& compiled);

}  // namespace snug::cli
