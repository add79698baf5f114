// The bytes of a plan on a CUDA device: one block taken once, or a range of addresses that grows in place.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/cuda/cuda_device.h"

namespace snug::core::cuda {

// Its bytes are not zeroed.
class CudaArena {
 public:
  // Fails with ResourceExhausted, and says what the device has, if the arena does not fit.
  static absl::StatusOr<std::unique_ptr<CudaArena>> Create(std::shared_ptr<const CudaDevice> device,
                                                           int64_t size_bytes);
  ~CudaArena();
  CudaArena(const CudaArena&) = delete;
  CudaArena& operator=(const CudaArena&) = delete;

  std::byte* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  CudaArena(std::shared_ptr<const CudaDevice> device, std::byte* data, int64_t size_bytes)
      : device_(std::move(device)), data_(data), size_bytes_(size_bytes) {}

  const std::shared_ptr<const CudaDevice> device_;
  std::byte* const data_;
  const int64_t size_bytes_;
};

// Reserves addresses and puts memory under them as it grows. Nothing moves, so addresses that were handed out stay good
// when a larger plan arrives. Thread-compatible.
class GrowingCudaArena {
 public:
  static absl::StatusOr<std::unique_ptr<GrowingCudaArena>> Create(std::shared_ptr<const CudaDevice> device,
                                                                  int64_t most_bytes);
  ~GrowingCudaArena();  // all work of the device that uses it has to be done
  GrowingCudaArena(const GrowingCudaArena&) = delete;
  GrowingCudaArena& operator=(const GrowingCudaArena&) = delete;

  // Makes it at least as large. After an error it is as it was before.
  absl::Status GrowTo(int64_t size_bytes);

  std::byte* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }  // how much of the device's memory it holds

 private:
  struct Piece {
    uint64_t handle = 0;
    int64_t bytes = 0;
  };

  GrowingCudaArena(std::shared_ptr<const CudaDevice> device, int64_t granularity)
      : device_(std::move(device)), granularity_(granularity) {}
  absl::Status Reserve(int64_t most_bytes);
  absl::Status Put(const Piece& piece);

  const std::shared_ptr<const CudaDevice> device_;
  const int64_t granularity_;
  std::byte* data_ = nullptr;
  int64_t reserved_bytes_ = 0;
  int64_t size_bytes_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace snug::core::cuda
