// Holds the blocks in use by address. Free looks its argument up here, so that a wrong pointer is an error and not a
// crash. Open addressing with linear probing, at most half full; an entry costs at most 160 bytes.
#pragma once

#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "memory/allocator/block_pool.h"

namespace snug::core::memory {

struct LiveBlock {
  void* address = nullptr;  // null: the slot is empty
  Block* block = nullptr;
  int64_t bytes = 0;        // what was asked for
  int64_t block_bytes = 0;  // what was taken
  absl::string_view name, held_as;
  std::thread::id thread;
  int32_t stream = 0;
  bool direct = false;
  bool shared = false;  // set once another stream is recorded for it
};

class LiveTable {
 public:
  LiveTable() : slots_(64) {}

  void Add(const LiveBlock& block);      // its address must not be in the table
  LiveBlock* Find(const void* address);  // null when it is not there. Valid until the next Add or Remove
  const LiveBlock* Find(const void* address) const { return const_cast<LiveTable*>(this)->Find(address); }
  void Remove(LiveBlock* block);  // takes what Find returned
  size_t size() const { return size_; }

  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const LiveBlock& slot : slots_) {
      if (slot.address != nullptr) visit(slot);
    }
  }

 private:
  size_t HomeOf(const void* address) const;
  void Grow();

  std::vector<LiveBlock> slots_;  // its size is a power of two
  size_t size_ = 0;
};

}  // namespace snug::core::memory
