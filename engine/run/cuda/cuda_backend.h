// Makes sessions on a CUDA device.
#pragma once

#include <absl/status/statusor.h>

#include <memory>

#include "engine/run/session/backend.h"

namespace snug::core {

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const BackendOptions& options);

}  // namespace snug::core
