// Plans of whole blocks: each buffer gets one block, the buffers of a block use its bytes one after the other, and a
// block is as large as its largest buffer. The blocks lie side by side in the arena.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <vector>

#include "memory/planner.h"

namespace snug::core::memory {

// Fails with InvalidArgument where a buffer must lie at a certain offset: strategies of whole blocks cannot keep one.
absl::Status CheckNoFixedOffsets(const Problem& problem, absl::string_view strategy);

// Returns the plan together with the problem's lower bound.
Placement WithBound(const Problem& problem, Plan plan);

// `block_of` has the block of each buffer, from 0; buffers of no bytes need none.
Plan LayBlocksSideBySide(const Problem& problem, const std::vector<int32_t>& block_of);

}  // namespace snug::core::memory
