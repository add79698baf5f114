// Rows of an array chosen by integers, and the sum of rows back to where they came from: what gather and embedding
// share. Along `axis`, x is [outer, rows, inner] and y is [outer, choices, inner].
#pragma once

#include <absl/strings/string_view.h>

#include "ops/kernel_context.h"
#include "ops/node_types.h"

namespace snug {

// Inputs `x` and `choices` (integers), output 0 is y. `name` is that of the choices, for the error that names the first
// one which is no row.
absl::Status GatherRows(const KernelContext& k, int x, int choices, int axis, absl::string_view name);

// Inputs `choices` and `dy`, output 0 is dx: each row the sum of dy's rows that came from it, in their order, so the
// bits do not depend on threads; each is written once.
absl::Status ScatterAddRows(const KernelContext& k, int choices, int dy, int axis, absl::string_view name);
int64_t ScatterAddWorkspaceBytes(const NodeTypes& types, int choices, int axis);

}  // namespace snug
