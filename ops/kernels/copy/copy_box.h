// What kernels/copy/strided_copy.h does, on the processor and by CUDA kernels (copy_box.cu). An op that moves boxes is
// one function, as a template over the class that moves them, and two rows of it:
//
//   .kernels = {Plain(Kernel<BoxesOnCpu>), OwnOnCuda(SNUG_IF_CUDA(Kernel<BoxesOnCuda>))}
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "ops/kernel_context.h"
#include "ops/kernels/copy/strided_copy.h"

namespace snug::core {

absl::Status CopyBoxCuda(const KernelContext& k, int64_t element_bytes, const Shape& box, const void* src,
                         const Strides& src_strides, void* dst, const Strides& dst_strides);
absl::Status FillBoxCuda(const KernelContext& k, int64_t element_bytes, const Shape& box, const void* element,
                         void* dst, const Strides& strides);

struct BoxesOnCpu {
  static absl::Status Copy(const KernelContext& k, int64_t element_bytes, const Shape& box, const void* src,
                           const Strides& src_strides, void* dst, const Strides& dst_strides) {
    CopyStrided(k.threads(), element_bytes, box, src, src_strides, dst, dst_strides);
    return absl::OkStatus();
  }
  static absl::Status Fill(const KernelContext& k, int64_t element_bytes, const Shape& box, const void* element,
                           void* dst, const Strides& strides) {
    FillStrided(k.threads(), element_bytes, box, element, dst, strides);
    return absl::OkStatus();
  }
  // Fills what lies outside of the box. It may fill inside too.
  static absl::Status FillAround(const KernelContext& k, int64_t element_bytes, const Shape& whole, const Shape& begin,
                                 const Shape& box, const void* element, void* dst, const Strides& strides) {
    core::FillAround(k.threads(), element_bytes, whole, begin, box, element, dst, strides);
    return absl::OkStatus();
  }
};

struct BoxesOnCuda {
  static absl::Status Copy(const KernelContext& k, int64_t element_bytes, const Shape& box, const void* src,
                           const Strides& src_strides, void* dst, const Strides& dst_strides) {
    return CopyBoxCuda(k, element_bytes, box, src, src_strides, dst, dst_strides);
  }
  static absl::Status Fill(const KernelContext& k, int64_t element_bytes, const Shape& box, const void* element,
                           void* dst, const Strides& strides) {
    return FillBoxCuda(k, element_bytes, box, element, dst, strides);
  }
  static absl::Status FillAround(const KernelContext& k, int64_t element_bytes, const Shape& whole,
                                 const Shape& /*begin*/, const Shape& /*box*/, const void* element, void* dst,
                                 const Strides& strides) {
    return FillBoxCuda(k, element_bytes, whole, element, dst, strides);
  }
};

}  // namespace snug::core
