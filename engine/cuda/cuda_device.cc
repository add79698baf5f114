#include "engine/cuda/cuda_device.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <array>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_table.h"

namespace snug::core::cuda {
namespace {

absl::StatusOr<int> Attribute(const Api& api, CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  SNUG_CUDA_CALL(api, cuDeviceGetAttribute, (&value, attribute, device), "asking what the device is");
  return value;
}

absl::StatusOr<DeviceInfo> Examine(const Api& api, int index) {
  CUdevice device = 0;
  SNUG_CUDA_CALL(api, cuDeviceGet, (&device, index), absl::StrCat("opening cuda:", index));
  DeviceInfo info{.index = index};
  std::array<char, 256> name = {};
  SNUG_CUDA_CALL(api, cuDeviceGetName, (name.data(), static_cast<int>(name.size()) - 1, device),
                 "asking the device's name");
  info.name = name.data();
  SNUG_ASSIGN_OR_RETURN(info.major, Attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  SNUG_ASSIGN_OR_RETURN(info.minor, Attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  SNUG_ASSIGN_OR_RETURN(info.processors, Attribute(api, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  size_t bytes = 0;
  SNUG_CUDA_CALL(api, cuDeviceTotalMem, (&bytes, device), "asking the device's memory");
  info.total_bytes = static_cast<int64_t>(bytes);
  return info;
}

absl::StatusOr<int> CountDevices(const Api& api) {
  int count = 0;
  SNUG_CUDA_CALL(api, cuDeviceGetCount, (&count), "counting the devices");
  return count;
}

// Returns the error that the device has no room, and says what it has as far as that is known.
absl::Status WithRoom(const CudaDevice& device, const absl::Status& refusal) {
  const absl::StatusOr<int64_t> free = device.FreeBytes();
  if (!absl::IsResourceExhausted(refusal) || !free.ok()) return refusal;
  return absl::ResourceExhaustedError(absl::StrCat(device.device().ToString(), " has ", *free, " of its ",
                                                   device.info().total_bytes, " bytes free: ", refusal.message()));
}

}  // namespace

std::string DeviceInfo::ToString() const {
  return absl::StrFormat("%s (sm_%d%d, %d processors, %.1f GiB)", name, major, minor, processors,
                         static_cast<double>(total_bytes) / 0x1p30);
}

absl::string_view CompiledArchitectures() { return SNUG_CUDA_ARCHITECTURES; }

bool RunsOn(absl::string_view architectures, int major, int minor) {
  for (const absl::string_view entry : absl::StrSplit(architectures, ';', absl::SkipEmpty())) {
    const std::vector<absl::string_view> parts = absl::StrSplit(entry, absl::MaxSplits('-', 1));
    int number = 0;
    if (!absl::SimpleAtoi(parts[0], &number)) continue;
    const bool same = number / 10 == major && number % 10 <= minor;
    const bool newer = number <= 10 * major + minor;
    const bool real = parts.size() == 1 || parts[1] == "real";
    const bool translated = parts.size() == 1 || parts[1] == "virtual";
    if ((real && same) || (translated && newer)) return true;
  }
  return false;
}

absl::StatusOr<std::vector<DeviceInfo>> ListDevices(const Api& api) {
  SNUG_ASSIGN_OR_RETURN(const int count, CountDevices(api));
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) {
    SNUG_ASSIGN_OR_RETURN(DeviceInfo info, Examine(api, i));
    devices.push_back(std::move(info));
  }
  return devices;
}

absl::StatusOr<DeviceInfo> FindDevice(const Api& api, int index) {
  SNUG_ASSIGN_OR_RETURN(const int count, CountDevices(api));
  if (index < 0 || index >= count) {
    return absl::NotFoundError(absl::StrCat(
        "no device cuda:", index, ": ",
        count == 0   ? "the driver shows none; nvidia-smi lists this machine's, CUDA_VISIBLE_DEVICES may hide them"
        : count == 1 ? "there is cuda:0 only"
                     : absl::StrCat("there are cuda:0 to cuda:", count - 1)));
  }
  return Examine(api, index);
}

absl::StatusOr<std::shared_ptr<CudaDevice>> CudaDevice::Open(std::shared_ptr<const Api> api, int index) {
  SNUG_ASSIGN_OR_RETURN(DeviceInfo info, FindDevice(*api, index));
  if (!RunsOn(CompiledArchitectures(), info.major, info.minor)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cuda:", index, " is a ", info.ToString(), ", and this build has code for ", CompiledArchitectures(),
        " only: build with -DSNUG_CUDA_ARCHITECTURES=", info.major, info.minor, "-real"));
  }
  std::shared_ptr<CudaDevice> device(new CudaDevice(std::move(api), std::move(info)));
  SNUG_CUDA_CALL(device->api(), cuDeviceGet, (&device->handle_, index), absl::StrCat("opening cuda:", index));
  SNUG_CUDA_CALL(device->api(), cuDevicePrimaryCtxRetain, (&device->context_, device->handle_),
                 absl::StrCat("opening cuda:", index));
  SNUG_RETURN_IF_ERROR(device->MakeCurrent());
  return device;
}

CudaDevice::~CudaDevice() {
  if (context_ != nullptr) api_->table().cuDevicePrimaryCtxRelease(handle_);
}

absl::Status CudaDevice::MakeCurrent() const {
  SNUG_CUDA_CALL(*api_, cuCtxSetCurrent, (context_), absl::StrCat("turning to ", device().ToString()));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> CudaDevice::FreeBytes() const {
  SNUG_RETURN_IF_ERROR(MakeCurrent());
  size_t free = 0;
  size_t total = 0;
  SNUG_CUDA_CALL(*api_, cuMemGetInfo, (&free, &total), "asking for the device's free memory");
  return static_cast<int64_t>(free);
}

absl::StatusOr<std::byte*> CudaDevice::Allocate(int64_t bytes) const {
  SNUG_RETURN_IF_ERROR(MakeCurrent());
  const auto take = [&]() -> absl::StatusOr<std::byte*> {
    CUdeviceptr address = 0;
    SNUG_CUDA_CALL(*api_, cuMemAlloc, (&address, static_cast<size_t>(bytes)),
                   absl::StrCat("taking ", bytes, " bytes of ", device().ToString()));
    return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): CUDA's addresses are numbers
  };
  absl::StatusOr<std::byte*> taken = take();
  if (!taken.ok()) return WithRoom(*this, taken.status());
  return taken;
}

void CudaDevice::Free(std::byte* address) const {
  if (address == nullptr) return;
  MakeCurrent().IgnoreError();  // freeing is tried whatever happened: a device that is lost refuses everything
  api_->table().cuMemFree(reinterpret_cast<CUdeviceptr>(address));
}

absl::StatusOr<std::byte*> CudaDevice::AllocatePinned(int64_t bytes) const {
  SNUG_RETURN_IF_ERROR(MakeCurrent());
  void* address = nullptr;
  SNUG_CUDA_CALL(*api_, cuMemHostAlloc, (&address, static_cast<size_t>(bytes), CU_MEMHOSTALLOC_PORTABLE),
                 absl::StrCat("taking ", bytes, " bytes of pinned host memory"));
  return static_cast<std::byte*>(address);
}

void CudaDevice::FreePinned(std::byte* address) const {
  if (address == nullptr) return;
  MakeCurrent().IgnoreError();
  api_->table().cuMemFreeHost(address);
}

absl::StatusOr<std::unique_ptr<PinnedBytes>> PinnedBytes::Create(std::shared_ptr<const CudaDevice> device,
                                                                 int64_t bytes) {
  std::byte* data = nullptr;
  if (bytes > 0) {
    SNUG_ASSIGN_OR_RETURN(data, device->AllocatePinned(bytes));
  }
  return std::unique_ptr<PinnedBytes>(new PinnedBytes(std::move(device), data, bytes));
}

PinnedBytes::~PinnedBytes() { device_->FreePinned(data_); }

}  // namespace snug::core::cuda
