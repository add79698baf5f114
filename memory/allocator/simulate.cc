#include "memory/allocator/simulate.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "memory/allocator/allocator.h"
#include "memory/problem.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kSourceAlignment = 4096;  // no allocator asks for more

struct SimulatedBlock {
  void* address = nullptr;
  bool live = false;
};

absl::Status Run(const AllocatorEvent& event, Allocator* allocator, SimulatedBlock* block) {
  const bool frees = event.action == AllocatorEvent::Action::kFree;
  if (block->live != frees) {
    return absl::InvalidArgumentError(absl::StrCat("block ", event.block, frees ? " is not in use" : " is in use"));
  }
  block->live = !frees;
  if (frees) return allocator->Free(block->address);
  SNUG_ASSIGN_OR_RETURN(block->address, allocator->Allocate(event.bytes, {event.stream, event.name, event.held_as}));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AllocatorStatistics> Simulate(absl::Span<const AllocatorEvent> events, const AllocatorOptions& options,
                                             const SimulatedDevice& device) {
  VirtualSource source(device.place, device.free_bytes, kSourceAlignment);
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Allocator> allocator, Allocator::Create(options, &source));
  std::vector<SimulatedBlock> blocks;
  for (size_t i = 0; i < events.size(); ++i) {
    const AllocatorEvent& event = events[i];
    if (event.block < 0) return absl::InvalidArgumentError(absl::StrCat("event ", i, ": block ", event.block));
    blocks.resize(std::max(blocks.size(), static_cast<size_t>(event.block) + 1));
    const absl::Status status = Run(event, allocator.get(), &blocks[static_cast<size_t>(event.block)]);
    if (absl::IsResourceExhausted(status)) return status;  // keeps the report exactly as the program would get it
    if (!status.ok()) return Annotate(status, absl::StrCat("event ", i));
  }
  return allocator->statistics();
}

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
