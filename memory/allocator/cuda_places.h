// CUDA's memory under the allocators: sources over a device and over pinned host memory, and the streams' events.
//
//   Places places({.allocator = "prealloc"});
//   SupportCuda({device}, streams, &places);
//   SNUG_ASSIGN_OR_RETURN(void* p, places.Alloc(Place::Cuda(0), 4096));
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engine/cuda/cuda_stream.h"
#include "memory/allocator/memory_source.h"
#include "memory/allocator/places.h"
#include "memory/allocator/stream_events.h"

namespace snug::memory {

class CudaSource final : public MemorySource {
 public:
  explicit CudaSource(std::shared_ptr<const cuda::CudaDevice> device) : device_(std::move(device)) {}

  Place place() const override { return Place::Cuda(device_->info().index); }
  int64_t alignment() const override { return 256; }
  bool host_accessible() const override { return false; }
  int64_t available_bytes() const override;
  absl::StatusOr<std::byte*> Allocate(int64_t bytes) override { return device_->Allocate(bytes); }
  void Free(std::byte* address, int64_t bytes) override;

 private:
  const std::shared_ptr<const cuda::CudaDevice> device_;
};

// Page-locked by the driver, so that devices copy from it and to it without the processor.
class CudaPinnedSource final : public MemorySource {
 public:
  explicit CudaPinnedSource(std::shared_ptr<const cuda::CudaDevice> device) : device_(std::move(device)) {}

  Place place() const override { return Place::Pinned(); }
  int64_t alignment() const override { return 256; }
  bool host_accessible() const override { return true; }
  int64_t available_bytes() const override;
  absl::StatusOr<std::byte*> Allocate(int64_t bytes) override { return device_->AllocatePinned(bytes); }
  void Free(std::byte* address, int64_t bytes) override;

 private:
  const std::shared_ptr<const cuda::CudaDevice> device_;
};

// Events of a pool behind what the streams were given. Where no event can be had, the host waits for the stream at
// once, which is right and slow.
class CudaStreamEvents final : public StreamEvents {
 public:
  // The streams by the numbers that blocks' owners have; they outlive this.
  CudaStreamEvents(std::shared_ptr<const cuda::CudaDevice> device, std::vector<cuda::CudaStream*> streams)
      : pool_(std::move(device)), streams_(std::move(streams)) {}

  Event Record(int32_t stream) override;
  bool Passed(Event event) override;
  void Wait(Event event) override;
  void Forget(Event event) override;

 private:
  cuda::EventPool pool_;
  const std::vector<cuda::CudaStream*> streams_;
  std::map<Event, std::unique_ptr<cuda::CudaEvent>> events_;
  Event last_ = 0;
};

// Blocks on these devices, and pinned ones through the first of them. `streams`, by device and number, may be empty:
// then nothing waits for streams. All must outlive `places`.
void SupportCuda(const std::vector<std::shared_ptr<const cuda::CudaDevice>>& devices,
                 const std::map<int, std::vector<cuda::CudaStream*>>& streams, Places* places);

}  // namespace snug::memory
