// `--device`: where steps run.
#pragma once

#include <string>

#include "engine/compile/pipeline.h"
#include "tools/cli/flags/flags.h"

namespace snug::core::cli {

void AddDeviceFlag(Flags& flags, std::string* text);

// Writes to standard error which nodes may give other bits each time, if any.
void SayWhatVaries(const Compiled& compiled);

}  // namespace snug::core::cli
