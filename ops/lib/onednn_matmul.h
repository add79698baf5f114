// Matrix products of oneDNN on row-major matrices. Weights change at every step, so a blocked copy of them would be
// made at every step too: it costs more than the library's own packing of plain ones (measured on MLPs and
// transformers).
#pragma once

#include <absl/status/statusor.h>

#include "ops/lib/matmul_node.h"
#include "ops/lib/onednn.h"

namespace snug::onednn {

// Arguments: a, b, (bias), c. Unimplemented: the library has only a reference kernel for this.
absl::StatusOr<KernelPtr> MakeMatMul(const MatMulNode& node, DType dtype, int threads);

}  // namespace snug::onednn
