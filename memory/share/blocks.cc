#include "memory/share/blocks.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "memory/problem.h"

namespace snug::core::memory {

absl::Status CheckNoFixedOffsets(const Problem& problem, absl::string_view strategy) {
  for (const Buffer& buffer : problem.buffers) {
    if (buffer.fixed_offset < 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("buffer \"", buffer.name, "\" must lie at ", buffer.fixed_offset,
                                                   ": strategy \"", strategy, "\" cannot place at given offsets"));
  }
  return absl::OkStatus();
}

Placement WithBound(const Problem& problem, Plan plan) {
  Placement placement{.plan = std::move(plan)};
  placement.report.lower_bound = LowerBound(problem);
  placement.report.proven = placement.plan.arena_bytes == placement.report.lower_bound;
  return placement;
}

Plan LayBlocksSideBySide(const Problem& problem, const std::vector<int32_t>& block_of) {
  struct BlockExtent {
    int64_t size_bytes = 0;
    int64_t alignment = 1;
    int64_t offset = 0;
  };
  std::vector<BlockExtent> blocks;
  const size_t n = problem.buffers.size();
  for (size_t i = 0; i < n; ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (buffer.size_bytes == 0) continue;
    const auto b = static_cast<size_t>(block_of[i]);
    if (b >= blocks.size()) blocks.resize(b + 1);
    blocks[b].size_bytes = std::max(blocks[b].size_bytes, buffer.size_bytes);
    blocks[b].alignment = std::lcm(blocks[b].alignment, buffer.alignment);
  }
  Plan plan{.offsets = std::vector<int64_t>(n, 0)};
  for (BlockExtent& block : blocks) {
    block.offset = AlignUp(plan.arena_bytes, block.alignment);
    plan.arena_bytes = block.offset + block.size_bytes;
  }
  for (size_t i = 0; i < n; ++i) {
    if (problem.buffers[i].size_bytes > 0) plan.offsets[i] = blocks[static_cast<size_t>(block_of[i])].offset;
  }
  return plan;
}

Plan PlanNone(const Problem& problem) {
  Plan plan;
  plan.offsets.reserve(problem.buffers.size());
  for (const Buffer& buffer : problem.buffers) {
    plan.offsets.push_back(AlignUp(plan.arena_bytes, buffer.alignment));
    plan.arena_bytes = plan.offsets.back() + buffer.size_bytes;
  }
  return plan;
}

}  // namespace snug::core::memory
