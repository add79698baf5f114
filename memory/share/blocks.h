// Plans of whole blocks: each buffer gets one block, the buffers of a block use its bytes one after the other, and a
// block is as large as its largest buffer. The blocks lie side by side in the arena. (The pool, which hands on blocks
// as values die, is in pool.h.)
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <vector>

#include "memory/planner.h"
#include "memory/problem.h"

namespace snug::core::memory {

// Fails with InvalidArgument where a buffer must lie at a certain offset: strategies of whole blocks cannot keep one.
absl::Status CheckNoFixedOffsets(const Problem& problem, absl::string_view strategy);

// Returns the plan together with the problem's lower bound.
Placement WithBound(const Problem& problem, Plan plan);

// `block_of` has the block of each buffer, from 0; buffers of no bytes need none.
Plan LayBlocksSideBySide(const Problem& problem, const std::vector<int32_t>& block_of);

// Strategy `none`: every buffer has its own bytes. It is the baseline, and the truth that every other strategy must
// equal.
Plan PlanNone(const Problem& problem);

// Strategy `coloring`: it colours the conflict graph of the buffers, and buffers of one colour share a block. It takes
// the largest buffer first and gives each the smallest block in which nothing conflicts with it. A block's first member
// is its largest, so no block ever grows. O(n x blocks x log n).
absl::StatusOr<Placement> PlaceColoring(const Problem& problem, const PlannerOptions& options);

}  // namespace snug::core::memory
