// The blocks of dynamic memory while steps run: taken before each kernel, given back as they die. Where they lie may
// differ from step to step.
//
// A Step takes its blocks as it runs, not as it is pushed: whoever pushes runs ahead of the workers, and would take the
// bytes of a whole step before the first of them comes back.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/compile/dynamic_memory.h"
#include "memory/allocator/allocator.h"

namespace snug {

// Thread-safe for Steps that may run side by side: each writes only the addresses of blocks that it alone uses then.
class DynamicBlocks {
 public:
  // Takes what the user holds. `memory` and the allocator must outlive it.
  static absl::StatusOr<std::unique_ptr<DynamicBlocks>> Create(const DynamicMemory& memory,
                                                               memory::Allocator* allocator);
  ~DynamicBlocks();  // gives everything back
  DynamicBlocks(const DynamicBlocks&) = delete;
  DynamicBlocks& operator=(const DynamicBlocks&) = delete;

  std::byte* Address(int32_t block) const { return addresses_[static_cast<size_t>(block)]; }
  bool held(int32_t block) const { return memory_.blocks[static_cast<size_t>(block)].held; }

  absl::Status TakeFor(size_t step);   // before the kernel
  absl::Status StepDone(size_t step);  // after it, unless it failed
  // After the last Step; or `complete` false, when none runs any more: after one has failed.
  absl::Status EndRun(bool complete);

 private:
  DynamicBlocks(const DynamicMemory& memory, memory::Allocator* allocator)
      : memory_(memory), allocator_(allocator), counts_(memory), addresses_(memory.blocks.size(), nullptr) {}
  absl::Status Take(int32_t block);
  absl::Status Free(int32_t block);

  const DynamicMemory& memory_;
  memory::Allocator* const allocator_;
  BlockCounts counts_;
  std::vector<std::byte*> addresses_;  // by block; null: not taken
};

}  // namespace snug
