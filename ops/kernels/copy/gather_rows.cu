#include <algorithm>

#include "ops/kernels/copy/gather_rows.h"
#include "ops/kit/cuda_kernel.h"
#include "ops/kit/dispatch.h"

namespace snug::core {
namespace {

// x is [outer, rows, inner]; y is [outer, choices, inner].
template <class T, class Index>
__global__ void GatherKernel(int64_t n, int64_t rows, int64_t count, int64_t inner, const T* x, const Index* choices,
                             T* y) {
  SNUG_CUDA_FOR(i, n) {
    const int64_t row = i / inner;
    const int64_t choice = choices[row % count];
    const bool exists = choice >= 0 && choice < rows;
    y[i] = exists ? x[(row / count * rows + choice) * inner + i % inner] : static_cast<T>(~T(0));
  }
}

// Finds out which positions chose the same row: next[p] is the first after p that did, or count; first[p] says that
// none before p did. Each thread looks along the choices as far as it must.
template <class Index>
__global__ void LinkKernel(int32_t count, int64_t rows, const Index* choices, int32_t* next, int32_t* first) {
  SNUG_CUDA_FOR(p, count) {
    const Index own = choices[p];
    auto after = static_cast<int32_t>(p) + 1;
    while (after < count && choices[after] != own) ++after;
    next[p] = after;
    auto before = static_cast<int32_t>(p) - 1;
    while (before >= 0 && choices[before] != own) --before;
    first[p] = before < 0 && own >= 0 && own < rows ? 1 : 0;
  }
}

// dx is [outer, rows, inner] and zero at first; dy is [outer, choices, inner]. For each row that was chosen, one block
// of threads adds up its sum in the order of the choices.
template <class T, class Index>
__global__ void ScatterAddKernel(int32_t count, int64_t outer, int64_t rows, int64_t inner, const Index* choices,
                                 const int32_t* next, const int32_t* first, const T* dy, T* dx) {
  using A = Accumulator<T>;
  for (int32_t p = blockIdx.x; p < count; p += gridDim.x) {
    if (first[p] == 0) continue;
    for (int64_t i = threadIdx.x; i < outer * inner; i += blockDim.x) {
      const T* from = dy + i / inner * count * inner + i % inner;
      A sum = 0;
      for (int32_t at = p; at < count; at = next[at]) sum += static_cast<A>(from[at * inner]);
      dx[(i / inner * rows + choices[p]) * inner + i % inner] = static_cast<T>(sum);
    }
  }
}

template <class Fn>
absl::Status DispatchBytes(int64_t bytes, Fn&& fn) {
  if (bytes == 1) return fn(uint8_t{});
  if (bytes == 2) return fn(uint16_t{});
  if (bytes == 4) return fn(uint32_t{});
  return fn(uint64_t{});
}

}  // namespace

absl::Status GatherRowsCuda(const KernelContext& k, int x, int choices, int axis) {
  const Shape& shape = k.input_type(x).shape;
  const int64_t inner = shape.Count(axis + 1, shape.rank());
  const int64_t count = k.input_type(choices).num_elements();
  const int64_t n = k.output_type(0).num_elements();
  return DispatchInteger(k.input_type(choices).dtype, [&](auto index) {
    return DispatchBytes(SizeOf(k.input_type(x).dtype), [&](auto zero) {
      using T = decltype(zero);
      using Index = decltype(index);
      return k.cuda()->Launch(GatherKernel<T, Index>, ShapeFor(n), n, shape[axis], count, inner, k.input<T>(x),
                              k.input<Index>(choices), k.output<T>(0));
    });
  });
}

absl::Status ScatterAddRowsCuda(const KernelContext& k, int choices, int dy, int axis) {
  const Shape& shape = k.output_type(0).shape;
  const int64_t inner = shape.Count(axis + 1, shape.rank());
  const auto count = static_cast<int32_t>(k.input_type(choices).num_elements());
  auto* next = k.workspace<int32_t>();
  int32_t* first = next + count;
  SNUG_RETURN_IF_ERROR(k.cuda()->Clear(k.output<void>(0), k.output_type(0).size_bytes()));
  return DispatchInteger(k.input_type(choices).dtype, [&](auto index) {
    return DispatchFloating(k.output_type(0).dtype, [&](auto zero) -> absl::Status {
      using T = decltype(zero);
      using Index = decltype(index);
      const auto* chosen = k.input<Index>(choices);
      SNUG_RETURN_IF_ERROR(
          k.cuda()->Launch(LinkKernel<Index>, ShapeFor(count), count, shape[axis], chosen, next, first));
      return k.cuda()->Launch(
          ScatterAddKernel<T, Index>, {.blocks = std::min<int64_t>(count, 1 << 16), .threads = kCudaThreads}, count,
          shape.Count(0, axis), shape[axis], inner, chosen, next, first, k.input<T>(dy), k.output<T>(0));
    });
  });
}

}  // namespace snug::core
