#include "memory/allocator/cuda_places.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <utility>

#include "engine/base/machine.h"
#include "engine/base/status.h"

namespace snug::core::memory {

int64_t CudaSource::available_bytes() const {
  const absl::StatusOr<int64_t> free = device_->FreeBytes();
  return free.ok() ? *free : -1;
}

void CudaSource::Free(std::byte* address, int64_t) { device_->Free(address); }

int64_t CudaPinnedSource::available_bytes() const { return AvailableBytes(); }

void CudaPinnedSource::Free(std::byte* address, int64_t) { device_->FreePinned(address); }

StreamEvents::Event CudaStreamEvents::Record(int32_t stream) {
  cuda::CudaStream& on = *streams_.at(static_cast<size_t>(stream));
  absl::StatusOr<std::unique_ptr<cuda::CudaEvent>> event = pool_.Take();
  if (event.ok() && on.Record(**event).ok()) {
    events_[++last_] = *std::move(event);
  } else {
    // An event that is not in the table counts as passed. If even waiting fails the device is lost, and the next call
    // says so.
    on.Synchronize().IgnoreError();
    ++last_;
  }
  return last_;
}

bool CudaStreamEvents::Passed(Event event) {
  const auto found = events_.find(event);
  if (found == events_.end()) return true;
  const absl::StatusOr<bool> passed = found->second->Passed();
  return passed.ok() && *passed;
}

void CudaStreamEvents::Wait(Event event) {
  const auto found = events_.find(event);
  if (found != events_.end()) found->second->Wait().IgnoreError();  // a lost device runs nothing any more
}

void CudaStreamEvents::Forget(Event event) {
  const auto found = events_.find(event);
  if (found == events_.end()) return;
  pool_.Give(std::move(found->second));
  events_.erase(found);
}

void SupportCuda(const std::vector<std::shared_ptr<const cuda::CudaDevice>>& devices,
                 const std::map<int, std::vector<cuda::CudaStream*>>& streams, Places* places) {
  places->Support(PlaceKind::kCuda, [devices, streams](const Place& place) -> absl::StatusOr<Places::Device> {
    for (const auto& device : devices) {
      if (device->info().index != place.device) continue;
      const auto used = streams.find(place.device);
      std::unique_ptr<StreamEvents> events;
      if (used != streams.end()) events = std::make_unique<CudaStreamEvents>(device, used->second);
      return Places::Device{std::make_unique<CudaSource>(device), std::move(events)};
    }
    const std::string open = absl::StrJoin(
        devices, ", ", [](std::string* out, const auto& device) { absl::StrAppend(out, device->device().ToString()); });
    return absl::NotFoundError(absl::StrCat("no memory on ", ToString(place), ": open are ", open));
  });
  if (devices.empty()) return;
  places->Support(PlaceKind::kPinned, [device = devices.front()](const Place& place) -> absl::StatusOr<Places::Device> {
    if (place.device != 0) {
      return absl::NotFoundError(absl::StrCat("pinned memory is one place: expected device 0, found ", place.device));
    }
    return Places::Device{std::make_unique<CudaPinnedSource>(device), nullptr};
  });
}

}  // namespace snug::core::memory
