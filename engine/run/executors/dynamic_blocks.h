// The blocks of dynamic memory while steps run. They are taken before each kernel and given back when they die. Where
// they lie may differ from step to step.
//
// On the CPU, a Step takes its blocks when it runs and not when it is pushed: the pusher is ahead of the workers, and
// would take the bytes of a whole step before the first block comes back.
//
// On a GPU, Steps are only queued, one after the other. A block that is given back at once (gc_fast) may be taken by
// another stream before it has been used. BlockAccesses then makes that stream wait, so all streams share one pool and
// take no more than one stream would. A block that is only given back after its streams have passed comes from the pool
// of the stream that takes it, and the allocator is told of every other stream that uses it (Allocator::RecordStream):
// then no stream waits for bytes, but more bytes are taken.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/conflict.h"
#include "engine/compile/executable.h"
#include "engine/compile/memory/dynamic_memory.h"
#include "memory/allocator/allocator.h"

namespace snug::core {

// Thread-safe for Steps that may run side by side: each only writes the addresses of blocks that it alone uses then.
class DynamicBlocks {
 public:
  // Takes the blocks of what the user holds. `memory` and the allocator must outlive the result. `stream_of`, by Step,
  // is given where blocks wait for several streams; it is empty where there is one stream, or none is waited for.
  static absl::StatusOr<std::unique_ptr<DynamicBlocks>> Create(const DynamicMemory& memory,
                                                               memory::Allocator* allocator,
                                                               std::vector<int32_t> stream_of = {});
  ~DynamicBlocks();  // gives everything back
  DynamicBlocks(const DynamicBlocks&) = delete;
  DynamicBlocks& operator=(const DynamicBlocks&) = delete;

  std::byte* Address(int32_t block) const { return addresses_[static_cast<size_t>(block)]; }
  bool held(int32_t block) const { return memory_.blocks[static_cast<size_t>(block)].held; }

  absl::Status TakeFor(size_t step);   // must be called before the Step's kernel
  absl::Status StepDone(size_t step);  // must be called after the kernel, unless it failed
  // Must be called after the last Step or, with `complete` false, when one has failed and none runs any more.
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

// The accesses of Steps whose memory is dynamic, by the addresses that their blocks have at the moment. With these, the
// one rule of engine/base/conflict.h also orders a Step after earlier users of the same bytes in another block, so a
// block may be taken again as soon as its last user is queued.
class BlockAccesses {
 public:
  // Both arguments must outlive this.
  BlockAccesses(const Executable& executable, const DynamicBlocks& blocks);

  // Returns the accesses of a Step whose blocks are taken; valid until the next call.
  const std::vector<Access>& Of(size_t step);

 private:
  struct Entry {
    Access access;
    int32_t block = -1;  // < 0: it lies in no block, and the access needs no change
  };

  const DynamicBlocks& blocks_;
  std::vector<std::vector<Entry>> entries_;  // by Step; regions count from the first byte of their block
  std::vector<Access> accesses_;
};

}  // namespace snug::core
