// The blocks of dynamic memory while steps run: taken before each kernel, given back as they die. Where they lie may
// differ from step to step.
//
// On the CPU a Step takes its blocks as it runs, not as it is pushed: whoever pushes runs ahead of the workers, and
// would take the bytes of a whole step before the first of them comes back.
//
// On a GPU Steps are only asked for, one after the other. What is given back at once (gc_fast) may be taken again by
// another stream before it was used: BlockAccesses makes that stream wait, so all share one pool, and no more is taken
// than on one stream. What is given back only after its streams have passed is taken from the pool of the stream that
// takes it, and the allocator is told of every other stream that uses it (Allocator::RecordStream): nobody waits for
// bytes then, and more of them are taken.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "engine/compile/dynamic_memory.h"
#include "memory/allocator/allocator.h"

namespace snug {

// Thread-safe for Steps that may run side by side: each writes only the addresses of blocks that it alone uses then.
class DynamicBlocks {
 public:
  // Takes what the user holds. `memory` and the allocator must outlive it. `stream_of`, by Step: where what is given
  // back waits for several streams; empty: there is one, or none are waited for.
  static absl::StatusOr<std::unique_ptr<DynamicBlocks>> Create(const DynamicMemory& memory,
                                                               memory::Allocator* allocator,
                                                               std::vector<int32_t> stream_of = {});
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
  DynamicBlocks(const DynamicMemory& memory, memory::Allocator* allocator, std::vector<int32_t> stream_of)
      : memory_(memory),
        allocator_(allocator),
        stream_of_(std::move(stream_of)),
        counts_(memory),
        addresses_(memory.blocks.size(), nullptr) {}
  int32_t StreamOf(size_t step) const { return stream_of_.empty() ? 0 : stream_of_[step]; }
  absl::Status Take(int32_t block, int32_t stream);
  absl::Status Free(int32_t block);

  const DynamicMemory& memory_;
  memory::Allocator* const allocator_;
  const std::vector<int32_t> stream_of_;
  BlockCounts counts_;
  std::vector<std::byte*> addresses_;  // by block; null: not taken
};

}  // namespace snug
