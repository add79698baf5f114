// An open CUDA device: its memory, and what it is. Streams and events are made on it (cuda_stream.h).
//
//   SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<const cuda::Api> api, cuda::Api::Load());
//   SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<cuda::CudaDevice> device, cuda::CudaDevice::Open(api, 0));
//   SNUG_ASSIGN_OR_RETURN(std::byte* const bytes, device->Allocate(1 << 20));
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/device.h"
#include "engine/cuda/cuda_api.h"

struct CUctx_st;

namespace snug::core::cuda {

struct DeviceInfo {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  // the compute capability
  int64_t total_bytes = 0;
  int processors = 0;

  std::string ToString() const;  // such as "NVIDIA H200 (sm_90, 132 processors, 139.8 GiB)"
};

// Lists the devices that the driver shows.
absl::StatusOr<std::vector<DeviceInfo>> ListDevices(const Api& api);

// Fails with NotFound if there is no device of that number.
absl::StatusOr<DeviceInfo> FindDevice(const Api& api, int index);

// Returns what this build has code for, in the notation of its configuration: "90-real;80-real;90-virtual".
absl::string_view CompiledArchitectures();
// Says whether code for `architectures` runs on a device of that capability. Real code runs on its own generation from
// its minor version on, virtual code on all later devices.
bool RunsOn(absl::string_view architectures, int major, int minor);

// Thread-safe. Everything made on a device keeps it open.
class CudaDevice {
 public:
  // Fails with NotFound if there is no device of that number, with FailedPrecondition if this build has no code for it.
  static absl::StatusOr<std::shared_ptr<CudaDevice>> Open(std::shared_ptr<const Api> api, int index);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const Api& api() const { return *api_; }
  const std::shared_ptr<const Api>& shared_api() const { return api_; }
  const DeviceInfo& info() const { return info_; }
  Device device() const { return {Device::Kind::kCuda, static_cast<int16_t>(info_.index)}; }

  // Directs the calls of this thread to this device from now on. Everything here and in cuda_stream.h does that itself.
  absl::Status MakeCurrent() const;

  // Returns what is free of the device's memory, not of ours.
  absl::StatusOr<int64_t> FreeBytes() const;

  // `bytes` has to be above 0. The block is aligned to 256.
  absl::StatusOr<std::byte*> Allocate(int64_t bytes) const;
  // Returns only after all work of the device that uses the block.
  void Free(std::byte* address) const;

  // Takes host memory that the device copies from and to directly.
  absl::StatusOr<std::byte*> AllocatePinned(int64_t bytes) const;
  void FreePinned(std::byte* address) const;

 private:
  CudaDevice(std::shared_ptr<const Api> api, DeviceInfo info) : api_(std::move(api)), info_(std::move(info)) {}

  const std::shared_ptr<const Api> api_;
  const DeviceInfo info_;
  int handle_ = 0;               // a CUdevice
  CUctx_st* context_ = nullptr;  // the primary one, which the runtime's kernels use too
};

// Pinned host memory, which is freed with its owner.
class PinnedBytes {
 public:
  static absl::StatusOr<std::unique_ptr<PinnedBytes>> Create(std::shared_ptr<const CudaDevice> device, int64_t bytes);
  ~PinnedBytes();
  PinnedBytes(const PinnedBytes&) = delete;
  PinnedBytes& operator=(const PinnedBytes&) = delete;

  std::byte* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  PinnedBytes(std::shared_ptr<const CudaDevice> device, std::byte* data, int64_t size_bytes)
      : device_(std::move(device)), data_(data), size_bytes_(size_bytes) {}

  const std::shared_ptr<const CudaDevice> device_;
  std::byte* const data_;
  const int64_t size_bytes_;
};

}  // namespace snug::core::cuda
