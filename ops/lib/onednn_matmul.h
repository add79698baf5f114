// Matrix products of oneDNN on row-major matrices. Weights change at every step, so a copy of them in the library's
// blocked layout would be made at every step too: on the layers of a small MLP that costs more than it gains. On larger
// float32 products the two are close.
#pragma once

#include <absl/status/statusor.h>

#include "ops/lib/matmul_node.h"
#include "ops/lib/onednn.h"

namespace snug::onednn {

// Arguments: a, b, (bias), c. Unimplemented: the library has only a reference kernel for this.
absl::StatusOr<KernelPtr> MakeMatMul(const MatMulNode& node, DType dtype, int threads);

}  // namespace snug::onednn
