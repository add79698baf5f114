#include "memory/allocator/places.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "memory/allocator/host_source.h"

namespace snug::core::memory {
namespace {

absl::Status CheckHost(const Place& place) {
  if (place.device == 0) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("host memory is one place: expected device 0 of ", ToString(place), ", found ", place.device));
}

}  // namespace

Places::Places(const AllocatorOptions& options) : options_(options) {
  Support(PlaceKind::kCpu, [this](const Place& place) -> absl::StatusOr<Device> {
    SNUG_RETURN_IF_ERROR(CheckHost(place));
    return Device{std::make_unique<HostSource>(std::max<int64_t>(256, options_.alignment)), nullptr};
  });
  Support(PlaceKind::kPinned, [](const Place& place) -> absl::StatusOr<Device> {
    SNUG_RETURN_IF_ERROR(CheckHost(place));
    return Device{std::make_unique<PinnedSource>(), nullptr};
  });
}

Places::~Places() = default;

void Places::Support(PlaceKind kind, DeviceFactory factory) {
  const std::lock_guard lock(mu_);
  factories_[kind] = std::move(factory);
}

absl::StatusOr<void*> Places::Alloc(const Place& place, int64_t bytes, const BlockOwner& owner) {
  SNUG_ASSIGN_OR_RETURN(Allocator * found, allocator(place));
  return found->Allocate(bytes, owner);
}

absl::Status Places::Free(const Place& place, void* address) {
  if (address == nullptr) return absl::OkStatus();
  SNUG_ASSIGN_OR_RETURN(Allocator * found, allocator(place));
  absl::Status status = found->Free(address);
  if (!absl::IsInvalidArgument(status)) return status;
  const std::lock_guard lock(mu_);
  for (const auto& [other, entry] : entries_) {
    if (other == place || !entry.allocator->InUse(address)) continue;
    return absl::InvalidArgumentError(absl::StrCat(absl::Hex(address), " is a block of ", ToString(other),
                                                   ", but was freed as one of ", ToString(place)));
  }
  return status;
}

int64_t Places::Used(const Place& place) const {
  const std::lock_guard lock(mu_);
  const auto found = entries_.find(place);
  return found == entries_.end() ? 0 : found->second.allocator->used_bytes();
}

absl::StatusOr<Allocator*> Places::allocator(const Place& place) {
  const std::lock_guard lock(mu_);
  if (const auto found = entries_.find(place); found != entries_.end()) return found->second.allocator.get();
  const auto factory = factories_.find(place.kind);
  if (factory == factories_.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no memory on ", ToString(place), ": this program has no backend for it"));
  }
  Entry entry;
  SNUG_ASSIGN_OR_RETURN(entry.device, factory->second(place));
  SNUG_ASSIGN_OR_RETURN(entry.allocator,
                        Allocator::Create(options_, entry.device.source.get(), entry.device.events.get()));
  return entries_.emplace(place, std::move(entry)).first->second.allocator.get();
}

}  // namespace snug::core::memory
