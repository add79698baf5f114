#include "memory/allocator/virtual_source.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include "memory/problem.h"

namespace snug::core::memory {

VirtualSource::VirtualSource(Place place, int64_t size_bytes, int64_t alignment)
    : place_(place), size_bytes_(size_bytes), alignment_(alignment) {}

int64_t VirtualSource::available_bytes() const {
  const std::lock_guard lock(mu_);
  return size_bytes_ < 0 ? -1 : size_bytes_ - taken_bytes_;
}

absl::StatusOr<std::byte*> VirtualSource::Allocate(int64_t bytes) {
  const std::lock_guard lock(mu_);
  if (size_bytes_ >= 0 && bytes > size_bytes_ - taken_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the device has ", size_bytes_ - taken_bytes_, " of its ", size_bytes_, " bytes free"));
  }
  taken_bytes_ += bytes;
  auto* address = reinterpret_cast<std::byte*>(next_address_);  // NOLINT(performance-no-int-to-ptr): no memory there
  next_address_ += AlignUp(bytes, alignment_);
  return address;
}

void VirtualSource::Free(std::byte*, int64_t bytes) {
  const std::lock_guard lock(mu_);
  taken_bytes_ -= bytes;
}

}  // namespace snug::core::memory
