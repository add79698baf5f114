// Copies and fills boxes with any strides. Each thread does one element, in the order in which they are written; where
// neighbours lie together in both arrays, 16 bytes of them are one.
#include <algorithm>
#include <cstring>

#include "ops/kernels/copy/copy_box.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"

namespace snug::core {
namespace {

template <class T>
__global__ void CopyKernel(int64_t n, CudaAxes from, CudaAxes to, const T* src, T* dst) {
  SNUG_CUDA_FOR(i, n) { dst[to.Offset(i)] = src[from.Offset(i)]; }
}

template <class T>
__global__ void FillKernel(int64_t n, CudaAxes to, T value, T* dst) {
  SNUG_CUDA_FOR(i, n) { dst[to.Offset(i)] = value; }
}

// Sorts the box's axes, those first that lie furthest apart in dst. Each array merges its own.
void Arrange(const Shape& box, const Strides& src, const Strides& dst, Axes* from, Axes* to) {
  std::array<size_t, kMaxRank> order = {};
  const auto rank = static_cast<size_t>(box.rank());
  for (size_t i = 0; i < rank; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.begin() + rank, [&](size_t a, size_t b) { return dst[a] > dst[b]; });
  for (size_t i = 0; i < rank; ++i) {
    from->Append(box[static_cast<int>(order[i])], src[order[i]]);
    to->Append(box[static_cast<int>(order[i])], dst[order[i]]);
  }
}

// Takes two elements as one, and again, as long as both arrays permit. Returns how many bytes one has then.
int64_t Widen(int64_t bytes, const void* src, const void* dst, Axes* from, Axes* to) {
  const auto in_pairs = [&](const Axes& axes, const void* address) {
    bool pairs = axes.inner_stride() == 1 && axes.inner_dim() % 2 == 0;
    for (int i = 0; i + 1 < axes.rank; ++i) pairs = pairs && axes.strides[static_cast<size_t>(i)] % 2 == 0;
    return pairs && reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(2 * bytes) == 0;
  };
  for (; bytes < 16 && in_pairs(*from, src) && in_pairs(*to, dst); bytes *= 2) {
    for (Axes* axes : {from, to}) {
      const auto inner = static_cast<size_t>(axes->rank) - 1;
      axes->dims[inner] /= 2;
      for (size_t i = 0; i < inner; ++i) axes->strides[i] /= 2;
    }
  }
  return bytes;
}

// Calls fn(T()) with a type of so many bytes.
template <class Fn>
absl::Status DispatchBytes(int64_t bytes, Fn&& fn) {
  switch (bytes) {
    case 1:
      return fn(uint8_t{});
    case 2:
      return fn(uint16_t{});
    case 4:
      return fn(uint32_t{});
    case 16:
      return fn(CudaPack<uint32_t, 4>{});
    default:
      return fn(uint64_t{});
  }
}

}  // namespace

absl::Status CopyBoxCuda(const KernelContext& k, int64_t element_bytes, const Shape& box, const void* src,
                         const Strides& src_strides, void* dst, const Strides& dst_strides) {
  Axes from, to;
  Arrange(box, src_strides, dst_strides, &from, &to);
  const int64_t n = box.num_elements();
  const auto contiguous = [](const Axes& axes) { return axes.rank == 0 || (axes.rank == 1 && axes.strides[0] == 1); };
  if (contiguous(from) && contiguous(to)) return k.cuda()->Copy(dst, src, n * element_bytes);
  return DispatchBytes(Widen(element_bytes, src, dst, &from, &to), [&](auto zero) {
    using T = decltype(zero);
    const int64_t count = to.count();
    return k.cuda()->Launch(CopyKernel<T>, ShapeFor(count), count, from, to, static_cast<const T*>(src),
                            static_cast<T*>(dst));
  });
}

absl::Status FillBoxCuda(const KernelContext& k, int64_t element_bytes, const Shape& box, const void* element,
                         void* dst, const Strides& strides) {
  Axes from, to;
  Arrange(box, strides, strides, &from, &to);
  const int64_t n = box.num_elements();
  return DispatchBytes(element_bytes, [&](auto zero) {
    using T = decltype(zero);
    T value;
    std::memcpy(&value, element, sizeof(T));
    return k.cuda()->Launch(FillKernel<T>, ShapeFor(n), n, to, value, static_cast<T*>(dst));
  });
}

}  // namespace snug::core
