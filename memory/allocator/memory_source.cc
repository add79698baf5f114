#include "memory/allocator/memory_source.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "engine/base/status.h"

namespace snug::core::memory {

std::string ToString(const Place& place) {
  switch (place.kind) {
    case PlaceKind::kCpu:
      return "cpu";
    case PlaceKind::kPinned:
      return "pinned";
    case PlaceKind::kCuda:
      break;
  }
  return absl::StrCat("cuda:", place.device);
}

absl::StatusOr<std::byte*> CountedSource::Allocate(int64_t bytes) {
  if (limit_bytes_ > 0 && bytes > limit_bytes_ - reserved_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the memory limit is ", limit_bytes_, " bytes, of which ", reserved_bytes_, " are reserved"));
  }
  SNUG_ASSIGN_OR_RETURN(std::byte * address, source_->Allocate(bytes));
  reserved_bytes_ += bytes;
  peak_reserved_bytes_ = std::max(peak_reserved_bytes_, reserved_bytes_);
  ++allocations_;
  return address;
}

void CountedSource::Free(std::byte* address, int64_t bytes) {
  source_->Free(address, bytes);
  reserved_bytes_ -= bytes;
  ++frees_;
}

int64_t CountedSource::available_bytes() const {
  const int64_t available = source_->available_bytes();
  if (limit_bytes_ == 0) return available;
  const int64_t within_limit = limit_bytes_ - reserved_bytes_;
  return available < 0 ? within_limit : std::min(available, within_limit);
}

}  // namespace snug::core::memory
