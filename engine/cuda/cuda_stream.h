// A stream of a CUDA device, and the events between streams. Everything here only asks for work, in sequence; nothing
// waits but Synchronize and CudaEvent::Wait.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/cuda/cuda_device.h"

struct CUevent_st;
struct CUstream_st;

namespace snug::core::cuda {

class CudaStream;

// A point in a stream. Recording it again moves it on.
class CudaEvent {
 public:
  // If `timed`, the event also notes when it was passed, which costs the device some time.
  static absl::StatusOr<std::unique_ptr<CudaEvent>> Create(std::shared_ptr<const CudaDevice> device,
                                                           bool timed = false);
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  // Never blocks. An event that was never recorded has passed.
  absl::StatusOr<bool> Passed() const;
  // Makes the host wait.
  absl::Status Wait() const;
  // Both events have to be timed, and have to have passed.
  absl::StatusOr<double> MillisecondsSince(const CudaEvent& earlier) const;

 private:
  friend class CudaStream;
  CudaEvent(std::shared_ptr<const CudaDevice> device, CUevent_st* handle)
      : device_(std::move(device)), handle_(handle) {}

  const std::shared_ptr<const CudaDevice> device_;
  CUevent_st* const handle_;
};

// Lends events for a while. Thread-safe: mu_ guards the list.
class EventPool {
 public:
  explicit EventPool(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}

  absl::StatusOr<std::unique_ptr<CudaEvent>> Take();
  void Give(std::unique_ptr<CudaEvent> event);

 private:
  const std::shared_ptr<const CudaDevice> device_;
  std::mutex mu_;
  std::vector<std::unique_ptr<CudaEvent>> free_;
};

// Thread-compatible.
class CudaStream {
 public:
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(std::shared_ptr<const CudaDevice> device);
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  CUstream_st* handle() const { return handle_; }
  const CudaDevice& device() const { return *device_; }

  // If the host memory is pinned, it is read, or written, when the stream comes to it: leave it alone until then.
  absl::Status Upload(std::byte* to, const std::byte* from, int64_t bytes);
  absl::Status Download(std::byte* to, const std::byte* from, int64_t bytes);
  absl::Status Clear(std::byte* address, int64_t bytes);  // sets the bytes to zero

  absl::Status Record(CudaEvent& event);
  absl::Status WaitFor(const CudaEvent& event);  // makes the stream wait, not the host
  absl::Status Synchronize();                    // makes the host wait for the stream

 private:
  CudaStream(std::shared_ptr<const CudaDevice> device, CUstream_st* handle)
      : device_(std::move(device)), handle_(handle) {}

  const std::shared_ptr<const CudaDevice> device_;
  CUstream_st* const handle_;
};

// A stream that is not ours. It puts work on our streams after what it was given before, and before what it is given
// later. Thread-compatible.
class CallerStream {
 public:
  // `handle` is a cudaStream_t of this device and outlives this; null: CUDA's default stream.
  static absl::StatusOr<std::unique_ptr<CallerStream>> Create(std::shared_ptr<const CudaDevice> device,
                                                              CUstream_st* handle);
  ~CallerStream();
  CallerStream(const CallerStream&) = delete;
  CallerStream& operator=(const CallerStream&) = delete;

  // Makes `ours` wait for what their stream has been given so far. Nobody else waits.
  absl::Status ComesBefore(const CudaStream& ours) const;
  // Makes their stream wait for what `ours` has been given so far.
  absl::Status ComesAfter(const CudaStream& ours) const;

 private:
  CallerStream(std::shared_ptr<const CudaDevice> device, CUstream_st* handle)
      : device_(std::move(device)), handle_(handle) {}
  absl::Status Order(CUstream_st* first, CUstream_st* second, CUevent_st* event) const;

  const std::shared_ptr<const CudaDevice> device_;
  CUstream_st* const handle_;
  CUevent_st* begun_ = nullptr;
  CUevent_st* ended_ = nullptr;
};

}  // namespace snug::core::cuda
