// Matrix products of oneDNN on row-major matrices. Weights change at every step, so a copy of them in the library's
// blocked layout is made at every step too: on the layers of a small MLP that costs more than it gains, on products
// with large ones as they are stored (not transposed), the gradients of inputs, less.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

#include "engine/graph/value_type.h"
#include "ops/lib/matmul_node.h"
#include "ops/lib/onednn.h"

namespace snug::onednn {

struct MatMulKernel {
  KernelPtr kernel;  // null: b should have the layout below
  Layout b;
};

// Arguments: a, b, (bias), c. Unimplemented: the library has only a reference kernel for this.
// `implementation`: by the library's name for it; empty: the first that takes no memory of its own at every call.
absl::StatusOr<MatMulKernel> MakeMatMul(const MatMulNode& node, DType dtype, const Layout& b_layout, int threads,
                                        absl::string_view implementation = {});
// What `implementation` may be, beside the one that is taken anyhow.
std::vector<std::string> MatMulImplementations(const MatMulNode& node, DType dtype, int threads);

}  // namespace snug::onednn
