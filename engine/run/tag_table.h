// The tags of an engine: which are alive, and their versions. A slot is used again, under another generation, once the
// deletion of its tag was carried out.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "engine/base/conflict.h"

namespace snug {

// Thread-compatible, but for Free() and for versions: those belong to the tasks that write the tag.
class TagTable {
 public:
  using Version = std::atomic<int64_t>;

  Tag New();
  // From now on the tag is unknown; its slot stays taken until Free().
  void Retire(Tag tag) { ++generations_[static_cast<size_t>(tag.index)]; }
  void Free(int32_t index);

  // The error names what is wrong with a region that a caller gave.
  absl::Status Check(const Region& region) const;
  absl::Status Check(absl::Span<const Region> regions) const;
  // Null for regions that are not tags. Stays where it is as long as the table.
  Version* FindVersion(const Region& region);

 private:
  // By index. Apart, because pushers read the one all the time, and workers write the other.
  std::vector<int32_t> generations_;
  std::deque<Version> versions_;
  std::mutex free_mu_;  // guards free_
  std::vector<int32_t> free_;
};

}  // namespace snug
