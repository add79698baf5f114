#include "engine/run/dependency/tag_table.h"

#include <absl/strings/str_cat.h>

namespace snug::core {

Tag TagTable::New() {
  int32_t index = -1;
  {
    const std::lock_guard lock(free_mu_);
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    }
  }
  if (index < 0) {
    index = static_cast<int32_t>(generations_.size());
    generations_.push_back(0);
    versions_.emplace_back();
  }
  versions_[static_cast<size_t>(index)].store(0, std::memory_order_relaxed);
  return {index, generations_[static_cast<size_t>(index)]};
}

void TagTable::Free(int32_t index) {
  const std::lock_guard lock(free_mu_);
  free_.push_back(index);
}

absl::Status TagTable::Check(const Region& region) const {
  if (region.arena != kTagArena) {
    if (region.arena >= 0 && region.begin <= region.end) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("region [", region.begin, ", ", region.end, ") of arena ",
                                                   region.arena,
                                                   ": expected an arena >= 0 and a begin that is not after the end"));
  }
  const Tag tag = TagOf(region);
  const bool known = tag.index >= 0 && static_cast<size_t>(tag.index) < generations_.size();
  if (known && generations_[static_cast<size_t>(tag.index)] == tag.generation && region == Region(tag)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tag ", tag.index, ".", tag.generation, ": ", known ? "it was deleted" : "no tag of this engine"));
}

absl::Status TagTable::Check(absl::Span<const Region> regions) const {
  for (const Region& region : regions) {
    absl::Status status = Check(region);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

TagTable::Version* TagTable::FindVersion(const Region& region) {
  return region.arena == kTagArena ? &versions_[static_cast<size_t>(TagOf(region).index)] : nullptr;
}

}  // namespace snug::core
