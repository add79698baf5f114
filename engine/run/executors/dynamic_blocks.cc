#include "engine/run/executors/dynamic_blocks.h"

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

}  // namespace snug::core
