// Dynamic memory of one place: blocks taken and freed as a program runs, with no plan.
//
//   HostSource source(256);
//   SNUG_ASSIGN_OR_RETURN(auto allocator, Allocator::Create({.allocator = "auto_growth"}, &source));
//   SNUG_ASSIGN_OR_RETURN(void* p, allocator->Allocate(4096, {.name = "conv1"}));
//   SNUG_RETURN_IF_ERROR(allocator->Free(p));
//
// Each stream has a pool of its own: what is freed on a stream may be handed out again on it at once, since the work
// that uses it comes later on the same stream. Blocks move between streams as whole idle chunks, through the source.
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
#include "memory/allocator/counted_source.h"
#include "memory/allocator/live_table.h"
#include "memory/allocator/options.h"
#include "memory/allocator/out_of_memory.h"
#include "memory/allocator/statistics.h"
#include "memory/allocator/stream_events.h"

namespace snug::memory {

// Whom a block is for.
struct BlockOwner {
  int32_t stream = 0;
  // For reports; neither is copied, so they must live as long as the block.
  absl::string_view name;
  absl::string_view held_as;  // "fed", "fetched": the user holds it; empty: nobody but the program
};

// Thread-safe: mu_ guards everything that changes.
class Allocator {
 public:
  // The source and the events outlive the allocator. `events` null: a device without streams.
  static absl::StatusOr<std::unique_ptr<Allocator>> Create(const AllocatorOptions& options, MemorySource* source,
                                                           StreamEvents* events = nullptr);
  ~Allocator();  // gives everything back; nothing may be in use on the device
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // Zero bytes give null. When nothing fits: idle chunks go back to the source; freed blocks are waited for that a
  // stream still holds; then, for up to retry_ms, other threads. After that ResourceExhausted, with all the facts.
  absl::StatusOr<void*> Allocate(int64_t bytes, const BlockOwner& owner = {});

  // Null is free to free. InvalidArgument for what is not in use here: freed twice, a foreign pointer, one into a
  // block.
  absl::Status Free(void* address);
  // As Free, but the block also stays out of use until what its own stream has been given so far has run.
  absl::Status FreeWhenStreamPassed(void* address);

  // The block is used by work on another stream than its owner's: after Free it stays out of use until that has run.
  absl::Status RecordStream(void* address, int32_t stream);

  // Chunks of which nothing is in use go back to the source. Their bytes.
  int64_t ReleaseIdle();

  int64_t used_bytes() const { return statistics().used_bytes; }
  AllocatorStatistics statistics() const;
  std::vector<BlockInfo> BlockMap() const;

  Place place() const { return source_.source().place(); }
  // Requests above it go past the pool.
  int64_t max_pooled_bytes() const { return pool_options_.growth.max_pooled_bytes; }
  bool InUse(void* address) const;
  void set_advice(OutOfMemoryAdvice advice);

  // Whether all records agree; see BlockPool::Check.
  absl::Status Check() const;

 private:
  // A block that was freed and that streams still use.
  struct Waiting {
    Block* block;
    int64_t block_bytes;
    int32_t stream;
    std::vector<StreamEvents::Event> events;
  };

  Allocator(const AllocatorOptions& options, const BlockPool::Options& pool_options, MemorySource* source,
            StreamEvents* events);

  // All of these are called with mu_ held.
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
  std::vector<std::unique_ptr<BlockPool>> pools_;  // by stream; null until the stream's first block
  LiveTable live_;
  std::unordered_map<const void*, std::vector<int32_t>> users_;  // other streams that use a block
  std::vector<Waiting> waiting_;
  AllocatorStatistics statistics_;  // but what the source counts
  OutOfMemoryAdvice advice_;
};

}  // namespace snug::memory
