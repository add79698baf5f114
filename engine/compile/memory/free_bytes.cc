#include "engine/compile/memory/free_bytes.h"

#include "engine/base/has_cuda.h"
#include "engine/base/machine.h"
#if SNUG_HAS_CUDA
#include "engine/cuda/cuda_device.h"
#endif

namespace snug::core {

int64_t FreeBytesOf(Device device) {
  if (device.kind == Device::Kind::kCpu) return AvailableBytes();
#if SNUG_HAS_CUDA
  const absl::StatusOr<std::shared_ptr<const cuda::Api>> api = cuda::Api::Load();
  if (!api.ok()) return -1;
  const absl::StatusOr<std::shared_ptr<cuda::CudaDevice>> open = cuda::CudaDevice::Open(*api, device.index);
  if (open.ok()) return (*open)->FreeBytes().value_or(-1);
#endif
  return -1;
}

}  // namespace snug::core
