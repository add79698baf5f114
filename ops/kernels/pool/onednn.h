// Average pooling kernels of oneDNN. (Its maximum does not keep to "NaN is above everything".)
#pragma once

#include <absl/status/statusor.h>

#include "engine/graph/value_type.h"
#include "ops/kernels/pool/geometry.h"
#include "ops/kit/onednn.h"

namespace snug::core::onednn {

struct AveragePoolSpec {
  PoolGeometry geometry;
  ValueType x, y;  // the types of the values, or of their gradients
  bool include_padding = true;
  int threads = 1;
};

// Fails with Unimplemented if the library has only a reference kernel, or if windows reach beyond the padding.
absl::StatusOr<KernelPtr> MakeAveragePool(const AveragePoolSpec& spec);      // x, y
absl::StatusOr<KernelPtr> MakeAveragePoolGrad(const AveragePoolSpec& spec);  // dy, dx

}  // namespace snug::core::onednn
