// Which options go together, with each other and with the device.
#pragma once

#include <absl/status/status.h>

namespace snug::core {

struct CompileOptions;

// Errors begin with the name of the option as users write it, but for the names of passes.
absl::Status CheckCompileOptions(const CompileOptions& options);

}  // namespace snug::core
