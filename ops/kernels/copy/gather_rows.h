// Chooses rows of an array by integers, and adds rows back to where they came from: gather and embedding share this.
// Along `axis`, x is [outer, rows, inner] and y is [outer, choices, inner].
#pragma once

#include <absl/strings/string_view.h>

#include "ops/kernel_context.h"
#include "ops/node_types.h"

namespace snug::core {

// Fails if one of the choices (input `choices`, on the CPU) is none of so many rows. The error calls them `name`.
absl::Status CheckChoices(const KernelContext& k, int choices, int64_t rows, absl::string_view name);

// The inputs are `x` and `choices` (integers), output 0 is y. The error for a choice that is no row calls the choices
// `name`.
absl::Status GatherRows(const KernelContext& k, int x, int choices, int axis, absl::string_view name);

// The inputs are `choices` and `dy`, output 0 is dx. Each row becomes the sum of dy's rows that came from it, in their
// order, so the bits do not depend on threads. Each row is written once.
absl::Status ScatterAddRows(const KernelContext& k, int choices, int dy, int axis, absl::string_view name);
int64_t ScatterAddWorkspaceBytes(const NodeTypes& types, int choices, int axis);

// The two halves of ScatterAddRows along axis 0, for who makes the rows in blocks. `sorted` has room for rows + 1
// numbers and one for each choice. The second writes rows [first, first + count) of dx [rows, ...], which `shape` is,
// to `block`.
absl::Status SortChoices(const KernelContext& k, int choices, int64_t rows, absl::string_view name, int64_t* sorted);
void SumSortedRows(const KernelContext& k, int choices, int dy, const Shape& shape, const int64_t* sorted,
                   int64_t first, int64_t count, void* block);

// The same by CUDA kernels (gather_rows.cu). A choice that is no row cannot be reported there: what it would have given
// is NaN (-1 among integers), and nothing is added to any row. The positions are sorted by what they chose, in the
// workspace, which is two keys of 8 bytes for each.
absl::Status GatherRowsCuda(const KernelContext& k, int x, int choices, int axis);
absl::Status ScatterAddRowsCuda(const KernelContext& k, int choices, int dy, int axis);
inline int64_t ScatterAddCudaWorkspaceBytes(const NodeTypes& types, int choices) {
  return 2 * types.input(choices).num_elements() * static_cast<int64_t>(sizeof(uint64_t));
}

}  // namespace snug::core
