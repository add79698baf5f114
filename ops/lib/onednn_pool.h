// Average pooling kernels of oneDNN. (Its maximum does not keep to "NaN is above everything".)
#pragma once

#include <absl/status/statusor.h>

#include "engine/graph/value_type.h"
#include "ops/lib/onednn.h"
#include "ops/lib/pool_geometry.h"

namespace snug::onednn {

struct AveragePoolSpec {
  PoolGeometry geometry;
  ValueType x, y;  // of the values, or of their gradients
  bool include_padding = true;
  int threads = 1;
};

// Unimplemented: the library has only a reference kernel for this, or windows reach beyond the padding.
absl::StatusOr<KernelPtr> MakeAveragePool(const AveragePoolSpec& spec);      // x, y
absl::StatusOr<KernelPtr> MakeAveragePoolGrad(const AveragePoolSpec& spec);  // dy, dx

}  // namespace snug::onednn
