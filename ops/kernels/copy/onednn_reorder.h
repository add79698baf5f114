// oneDNN's reorder, between packed layouts and plain ones.
#pragma once

#include <absl/status/statusor.h>

#include "engine/graph/value_type.h"
#include "ops/kit/onednn.h"

namespace snug::core::onednn {

// The arguments are from, to. At least one side is packed; a plain side is row-major.
absl::StatusOr<KernelPtr> MakeReorder(const ValueType& from, const ValueType& to, int threads);

}  // namespace snug::core::onednn
