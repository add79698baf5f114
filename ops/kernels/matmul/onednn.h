// Matrix products of oneDNN on row-major matrices. Weights change at every step, so a copy of them in the library's
// blocked layout would have to be made at every step too. On the layers of a small MLP this costs more than it gains;
// it costs less in products with large weights as they are stored (not transposed): the gradients of inputs.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

#include "engine/graph/value_type.h"
#include "ops/kernels/matmul/node.h"
#include "ops/kit/onednn.h"

namespace snug::core::onednn {

struct MatMulKernel {
  KernelPtr kernel;  // null: b should have the layout below
  Layout b;
};

// The arguments are a, b, (bias), c. `implementation` is the library's name for one; empty: the first that takes no
// memory of its own at every call. Fails with Unimplemented if the library has only a reference kernel.
absl::StatusOr<MatMulKernel> MakeMatMul(const MatMulNode& node, DType dtype, const Layout& b_layout, int threads,
                                        absl::string_view implementation = {});
// Lists what `implementation` may be, besides the one that is taken without being asked for.
absl::StatusOr<std::vector<std::string>> MatMulImplementations(const MatMulNode& node, DType dtype, int threads);

}  // namespace snug::core::onednn
