#include "engine/run/executors/dynamic_blocks.h"

#include <iterator>
#include <map>
#include <utility>

#include "engine/base/status.h"

namespace snug::core {

absl::StatusOr<std::unique_ptr<DynamicBlocks>> DynamicBlocks::Create(const DynamicMemory& memory,
                                                                     memory::Allocator* allocator,
                                                                     std::vector<int32_t> stream_of) {
  std::unique_ptr<DynamicBlocks> blocks(new DynamicBlocks(memory, allocator, std::move(stream_of)));
  for (size_t b = 0; b < memory.blocks.size(); ++b) {
    if (memory.blocks[b].held) SNUG_RETURN_IF_ERROR(blocks->Take(static_cast<int32_t>(b), /*stream=*/0));
  }
  return blocks;
}

DynamicBlocks::~DynamicBlocks() {
  for (size_t b = 0; b < addresses_.size(); ++b) SNUG_CHECK(Free(static_cast<int32_t>(b)).ok());
}

absl::Status DynamicBlocks::TakeFor(size_t step) {
  for (const int32_t block : memory_.steps[step].takes) {
    SNUG_RETURN_IF_ERROR(Take(block, StreamOf(step)));
  }
  return absl::OkStatus();
}

absl::Status DynamicBlocks::StepDone(size_t step) {
  absl::Status status;
  if (!stream_of_.empty()) {
    for (const int32_t block : memory_.steps[step].uses) {
      status.Update(allocator_->RecordStream(Address(block), StreamOf(step)));
    }
  }
  counts_.StepDone(step, [&](int32_t block) { status.Update(Free(block)); });
  return status;
}

absl::Status DynamicBlocks::EndRun(bool complete) {
  absl::Status status;
  counts_.EndRun([&](int32_t block) { status.Update(Free(block)); });
  if (complete) return status;
  for (size_t b = 0; b < addresses_.size(); ++b) {
    if (!memory_.blocks[b].held) status.Update(Free(static_cast<int32_t>(b)));
  }
  counts_.Reset();
  return status;
}

absl::Status DynamicBlocks::Take(int32_t block, int32_t stream) {
  const DynamicMemory::ValueBlock& taken = memory_.blocks[static_cast<size_t>(block)];
  SNUG_ASSIGN_OR_RETURN(void* const address, allocator_->Allocate(taken.bytes, {stream, taken.name, taken.held_as}));
  addresses_[static_cast<size_t>(block)] = static_cast<std::byte*>(address);
  return absl::OkStatus();
}

absl::Status DynamicBlocks::Free(int32_t block) {
  std::byte* const address = std::exchange(addresses_[static_cast<size_t>(block)], nullptr);
  return memory_.options.garbage.gc_fast ? allocator_->Free(address) : allocator_->FreeWhenStreamPassed(address);
}

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
