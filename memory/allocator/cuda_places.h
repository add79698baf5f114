// Puts CUDA's memory under the allocators: sources over a device and over pinned host memory, and the events of the
// streams.
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

namespace snug::core::memory {

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

// Pinned memory is page-locked by the driver, so that devices copy from it and to it without the processor.
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

// Records events of a pool on the streams. Where no event can be had, the host waits for the stream at once: slow, but
// right.
class CudaStreamEvents final : public StreamEvents {
 public:
  // `streams` are indexed by the numbers that owners of blocks have; they must outlive this object.
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

// Lets `places` hand out blocks on these devices, and pinned blocks through the first of them. With `streams` (by
// device and number) empty, nothing waits for streams. All arguments must outlive `places`.
void SupportCuda(const std::vector<std::shared_ptr<const cuda::CudaDevice>>& devices,
                 const std::map<int, std::vector<cuda::CudaStream*>>& streams, Places* places);

}  // namespace snug::core::memory
