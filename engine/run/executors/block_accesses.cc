#include "engine/run/executors/block_accesses.h"

#include <iterator>
#include <map>

#include "engine/base/status.h"

namespace snug::core {
namespace {

bool InBlocks(const Region& region) {
  const auto arena = static_cast<Arena>(region.arena);
  return region.arena >= 0 && (arena == Arena::kStep || arena == Arena::kParts);
}

// In the step's plan a range tells blocks apart. Returns the block of each range, by its first byte.
std::map<int64_t, int32_t> BlocksByFirstByte(const MemoryPlan& plan) {
  std::map<int64_t, int32_t> blocks;
  const std::vector<int64_t>& offsets = plan.step.placement.plan.offsets;
  for (size_t buffer = 0; buffer < offsets.size(); ++buffer) {
    const int32_t block = plan.dynamic->block_of_buffer[buffer];
    if (block >= 0 && plan.step.problem.buffers[buffer].size_bytes > 0) blocks[offsets[buffer]] = block;
  }
  return blocks;
}

}  // namespace

BlockAccesses::BlockAccesses(const Executable& executable, const DynamicBlocks& blocks) : blocks_(blocks) {
  const std::map<int64_t, int32_t> by_first_byte = BlocksByFirstByte(executable.memory);
  for (const Step& step : executable.steps) {
    std::vector<Entry>& entries = entries_.emplace_back();
    for (const Access& access : step.accesses) {
      Entry& entry = entries.emplace_back(Entry{access});
      Region& region = entry.access.region;
      if (!InBlocks(region) || region.begin >= region.end) continue;
      const auto after = by_first_byte.upper_bound(region.begin);
      SNUG_CHECK(after != by_first_byte.begin());
      const auto& [first, block] = *std::prev(after);
      entry.block = block;
      region.begin -= first;
      region.end -= first;
    }
  }
}

const std::vector<Access>& BlockAccesses::Of(size_t step) {
  accesses_.clear();
  for (const Entry& entry : entries_[step]) {
    Access access = entry.access;
    if (entry.block >= 0) {
      const auto address = reinterpret_cast<intptr_t>(blocks_.Address(entry.block));
      access.region.begin += address;
      access.region.end += address;
    }
    accesses_.push_back(access);
  }
  return accesses_;
}

}  // namespace snug::core
