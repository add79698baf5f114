// Dynamic memory of one place: blocks taken and freed as a program runs, with no plan.
//
//   HostSource source(256);
//   SNUG_ASSIGN_OR_RETURN(auto allocator, Allocator::Create({.allocator = "auto_growth"}, &source));
//   SNUG_ASSIGN_OR_RETURN(void* p, allocator->Allocate(4096, {.name = "conv1"}));
//   SNUG_RETURN_IF_ERROR(allocator->Free(p));
//
// Each stream has a pool of its own: what is freed on a stream may be handed out on it again at once, because work that
// uses it later runs later on that stream. Memory moves between streams only as whole idle chunks, through the source.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "memory/allocator/block_pool.h"
#include "memory/allocator/live_table.h"
#include "memory/allocator/memory_source.h"
#include "memory/allocator/options.h"
#include "memory/allocator/out_of_memory.h"
#include "memory/allocator/statistics.h"
#include "memory/allocator/stream_events.h"

namespace snug::core::memory {

// Says whom a block is for.
struct BlockOwner {
  int32_t stream = 0;
  // The names are for reports. They are not copied, so they must live as long as the block.
  absl::string_view name;
  absl::string_view held_as;  // "fed", "fetched": the user holds it; empty: nobody but the program
};

// Thread-safe: mu_ guards everything that changes.
class Allocator {
 public:
  // The source and the events must outlive the allocator. A device without streams passes null for `events`.
  static absl::StatusOr<std::unique_ptr<Allocator>> Create(const AllocatorOptions& options, MemorySource* source,
                                                           StreamEvents* events = nullptr);
  ~Allocator();  // gives everything back; no work on the device may still use any of it
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // Returns null for zero bytes. When nothing fits, it gives idle chunks back to the source; then waits for freed
  // blocks that a stream still uses; then waits up to retry_ms for other threads to free something. After that it fails
  // with ResourceExhausted and all the facts.
  absl::StatusOr<void*> Allocate(int64_t bytes, const BlockOwner& owner = {});

  // Null may be freed. InvalidArgument when `address` is not in use here: it was freed before, is foreign, or points
  // into a block.
  absl::Status Free(void* address);
  // Does what Free does, but keeps the block out of use until its own stream has run all that it was given so far.
  absl::Status FreeWhenStreamPassed(void* address);

  // Tells that work on a stream other than the owner's uses the block. After Free the block stays out of use until that
  // work has run.
  absl::Status RecordStream(void* address, int32_t stream);

  // Gives chunks with no block in use back to the source. Returns their bytes.
  int64_t ReleaseIdle();

  int64_t used_bytes() const { return statistics().used_bytes; }
  AllocatorStatistics statistics() const;
  std::vector<BlockInfo> BlockMap() const;

  Place place() const { return source_.source().place(); }
  // Larger requests go to the system, past the pool.
  int64_t max_pooled_bytes() const { return pool_options_.growth.max_pooled_bytes; }
  bool InUse(void* address) const;
  void set_advice(OutOfMemoryAdvice advice);

  // Checks that all records agree; see BlockPool::Check.
  absl::Status Check() const;

 private:
  // This block was freed, but streams still use it.
  struct Waiting {
    Block* block;
    int64_t block_bytes;
    int32_t stream;
    std::vector<StreamEvents::Event> events;
  };

  Allocator(const AllocatorOptions& options, const BlockPool::Options& pool_options, MemorySource* source,
            StreamEvents* events);

  // The caller holds mu_ when it calls any of these.
  BlockPool& PoolOf(int32_t stream);
  absl::StatusOr<Grant> TakeUnderPressure(std::unique_lock<std::mutex>& lock, BlockPool& pool, int64_t bytes,
                                          absl::Status refusal);
  absl::Status FreeLocked(void* address, bool when_stream_passed);
  absl::Status NotInUse(const void* address) const;
  absl::Status GiveBack(Block* block, int64_t block_bytes, int32_t stream);
  absl::Status CollectPassed(bool wait);
  int64_t ReleaseIdleLocked();
  bool OthersHoldBlocks() const;
  OutOfMemory Facts(const BlockPool& pool, int64_t bytes, const BlockOwner& owner, const absl::Status& refusal) const;

  const AllocatorOptions options_;
  const BlockPool::Options pool_options_;
  StreamEvents* const events_;

  mutable std::mutex mu_;
  std::condition_variable freed_;
  CountedSource source_;
  std::vector<std::unique_ptr<BlockPool>> pools_;  // indexed by stream; null until the stream's first block
  LiveTable live_;
  std::unordered_map<const void*, std::vector<int32_t>> users_;  // the streams beside the owner's that use a block
  std::vector<Waiting> waiting_;
  AllocatorStatistics statistics_;  // without the figures that the source counts
  OutOfMemoryAdvice advice_;
};

}  // namespace snug::core::memory
