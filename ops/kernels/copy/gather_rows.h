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

// A list of rows is what is left of an array [entries, inner] most of whose rows are zero: the numbers of the others,
// int64 [room], ascending, and what is in them, [room, inner]. Behind the last one the numbers are -1, and zeros.
//
// Makes output 0, the numbers, and output 1, the sums, of the inputs `choices` and `dy`; there is room for a row for
// each choice. The sums have the bits that ScatterAddRows gives them. Takes O(choices), whatever `entries` is.
absl::Status SumChosenRows(const KernelContext& k, int choices, int dy, int64_t entries, absl::string_view name);
int64_t SumChosenRowsWorkspaceBytes(int64_t choices);
// Whether a row and a position fit into a key of 64 bits, by which they are sorted.
bool CanSumChosenRows(int64_t choices, int64_t entries);

// Adds two lists of rows, inputs 0 and 1, and 2 and 3; there is room for the rows of both. The workspace has two
// numbers of 8 bytes for each.
absl::Status AddRowLists(const KernelContext& k);

// Adds `count` listed rows to those of an array that have their numbers. `sums` begins with the row `first_row`.
template <class T>
void AddListedRows(int threads, const int64_t* rows, int64_t count, int64_t inner, const T* listed, int64_t first_row,
                   T* sums);

// Returns how many rows a list has.
int64_t CountRows(const int64_t* rows, int64_t room);
// Fails unless the numbers are those of a list of an array with so many entries.
absl::Status CheckRowList(const int64_t* rows, int64_t room, int64_t entries);

// GatherRows and ScatterAddRows by CUDA kernels (gather_rows.cu). A choice that is no row cannot be reported there:
// what it would have given is NaN (-1 among integers), and nothing is added to any row. The positions are sorted by
// what they chose, in the workspace, which is two keys of 8 bytes for each.
absl::Status GatherRowsCuda(const KernelContext& k, int x, int choices, int axis);
absl::Status ScatterAddRowsCuda(const KernelContext& k, int choices, int dy, int axis);
inline int64_t ScatterAddCudaWorkspaceBytes(const NodeTypes& types, int choices) {
  return 2 * types.input(choices).num_elements() * static_cast<int64_t>(sizeof(uint64_t));
}

}  // namespace snug::core
