#include "ops/kernels/copy/copy_box.h"

#include "engine/base/has_cuda.h"

namespace snug::core {

absl::Status CopyBox(const KernelContext& k, int64_t element_bytes, const Shape& box, const void* src,
                     const Strides& src_strides, void* dst, const Strides& dst_strides) {
#if SNUG_HAS_CUDA
  if (k.cuda() != nullptr) return CopyBoxCuda(k, element_bytes, box, src, src_strides, dst, dst_strides);
#endif
  CopyStrided(k.threads(), element_bytes, box, src, src_strides, dst, dst_strides);
  return absl::OkStatus();
}

absl::Status FillBox(const KernelContext& k, int64_t element_bytes, const Shape& box, const void* element, void* dst,
                     const Strides& strides) {
#if SNUG_HAS_CUDA
  if (k.cuda() != nullptr) return FillBoxCuda(k, element_bytes, box, element, dst, strides);
#endif
  FillStrided(k.threads(), element_bytes, box, element, dst, strides);
  return absl::OkStatus();
}

absl::Status FillAroundBox(const KernelContext& k, int64_t element_bytes, const Shape& whole, const Shape& begin,
                           const Shape& box, const void* element, void* dst, const Strides& strides) {
#if SNUG_HAS_CUDA
  if (k.cuda() != nullptr) return FillBoxCuda(k, element_bytes, whole, element, dst, strides);
#endif
  FillAround(k.threads(), element_bytes, whole, begin, box, element, dst, strides);
  return absl::OkStatus();
}

}  // namespace snug::core
