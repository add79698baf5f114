// What kernels/copy/strided_copy.h does, for kernels that run on either device: by the processor, or by CUDA kernels
// (copy_box.cu) where the node runs there.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "ops/kernel_context.h"
#include "ops/kernels/copy/strided_copy.h"

namespace snug::core {

absl::Status CopyBox(const KernelContext& k, int64_t element_bytes, const Shape& box, const void* src,
                     const Strides& src_strides, void* dst, const Strides& dst_strides);
absl::Status FillBox(const KernelContext& k, int64_t element_bytes, const Shape& box, const void* element, void* dst,
                     const Strides& strides);
// Fills what lies outside of the box. It may fill inside too.
absl::Status FillAroundBox(const KernelContext& k, int64_t element_bytes, const Shape& whole, const Shape& begin,
                           const Shape& box, const void* element, void* dst, const Strides& strides);

// These run on CUDA only.
absl::Status CopyBoxCuda(const KernelContext& k, int64_t element_bytes, const Shape& box, const void* src,
                         const Strides& src_strides, void* dst, const Strides& dst_strides);
absl::Status FillBoxCuda(const KernelContext& k, int64_t element_bytes, const Shape& box, const void* element,
                         void* dst, const Strides& strides);

}  // namespace snug::core
