// The tags of an engine: which exist, and their versions. The slot of a tag is reused, with another generation, once
// the tag's deletion was carried out.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "engine/base/conflict.h"

namespace snug::core {

// Thread-compatible, except Free() and versions: only tasks that write the tag use those.
class TagTable {
 public:
  using Version = std::atomic<int64_t>;

  Tag New();
  // Makes the tag unknown from now on. Its slot stays taken until Free().
  void Retire(Tag tag) { ++generations_[static_cast<size_t>(tag.index)]; }
  void Free(int32_t index);

  // The error says what is wrong with a region that a caller gave.
  absl::Status Check(const Region& region) const;
  absl::Status Check(absl::Span<const Region> regions) const;
  // Returns null for regions that are not tags. The version stays at its place as long as the table.
  Version* FindVersion(const Region& region);

 private:
  // Both are indexed by tag. They are kept apart because pushers read generations all the time, and workers write
  // versions.
  std::vector<int32_t> generations_;
  std::deque<Version> versions_;
  std::mutex free_mu_;  // guards free_
  std::vector<int32_t> free_;
};

}  // namespace snug::core
