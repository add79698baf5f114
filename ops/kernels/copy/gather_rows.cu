#include <algorithm>
#include <utility>

#include "ops/kernels/copy/gather_rows.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/dispatch.h"

namespace snug::core {
namespace {

// x is [outer, rows, inner]; y is [outer, choices, inner].
template <class T, class Index>
__global__ void GatherKernel(int64_t n, int64_t rows, int64_t count, int64_t inner, CudaDivisor by_count,
                             CudaDivisor by_inner, const T* x, const Index* choices, T* y) {
  SNUG_CUDA_FOR(i, n) {
    const int64_t row = by_inner.Divide(i);
    const int64_t outer = by_count.Divide(row);
    const int64_t choice = choices[row - outer * count];
    const bool exists = choice >= 0 && choice < rows;
    y[i] = exists ? x[(outer * rows + choice) * inner + i - row * inner] : static_cast<T>(~T(0));
  }
}

// The same for rows of whole packs of 16 bytes: x is [outer, rows, packs]. A warp copies each row.
template <class Index>
__global__ void GatherPacksKernel(int64_t outer, int64_t rows, int64_t count, int64_t packs, const uint32_t* x,
                                  const Index* choices, uint32_t* y) {
  constexpr int kWarps = kCudaThreads / 32;
  constexpr int kPack = kCudaPack<uint32_t>;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; row < outer * count;
       row += static_cast<int64_t>(gridDim.x) * kWarps) {
    const int64_t choice = choices[row % count];
    const bool exists = choice >= 0 && choice < rows;
    const uint32_t* from = x + (row / count * rows + (exists ? choice : 0)) * packs * kPack;
    for (int64_t i = threadIdx.x % 32; i < packs; i += 32) {
      auto pack = LoadPack<true, kPack>(from + i * kPack, kPack);
      for (int j = 0; j < kPack; ++j) pack.values[j] = exists ? pack.values[j] : ~uint32_t{0};
      StorePack<true>(pack, y + (row * packs + i) * kPack, kPack);
    }
  }
}

// A choice and its position, so that no two are equal: sorted, the positions that chose a row follow each other in
// order.
using Key = uint64_t;
constexpr Key kNoKey = ~Key{0};
__device__ inline int64_t PositionOf(Key key) { return static_cast<int64_t>(key & 0xffffffffU); }
__device__ inline int64_t RowOf(Key key) { return static_cast<int64_t>(key >> 32); }

constexpr int kLogSortedByBlock = 10;
constexpr int kSortedByBlock = 1 << kLogSortedByBlock;

// Makes the keys of kSortedByBlock choices for each block and sorts them (Batcher's bitonic sort). What is no row comes
// last, as row `rows`.
template <class Index>
__global__ void SortBlocksKernel(int64_t count, int64_t rows, const Index* choices, Key* sorted) {
  __shared__ Key keys[kSortedByBlock];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kSortedByBlock;
  for (int i = static_cast<int>(threadIdx.x); i < kSortedByBlock; i += kCudaThreads) {
    const int64_t p = first + i;
    if (p >= count) {
      keys[i] = kNoKey;
      continue;
    }
    const int64_t choice = choices[p];
    keys[i] = static_cast<Key>(choice >= 0 && choice < rows ? choice : rows) << 32 | static_cast<Key>(p);
  }
  for (int size = 2; size <= kSortedByBlock; size *= 2) {
    for (int distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kSortedByBlock / 2; i += kCudaThreads) {
        const int low = 2 * i - (i & (distance - 1));  // distances are powers of 2
        const int high = low + distance;
        const bool upwards = (low & size) == 0;
        const Key a = keys[low];
        const Key b = keys[high];
        if ((a > b) == upwards) {
          keys[low] = b;
          keys[high] = a;
        }
      }
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kSortedByBlock && first + i < count; i += kCudaThreads) {
    sorted[first + i] = keys[i];
  }
}

// Merges each two sorted runs of 2^log_width keys: a key's place is its own in its run and as far on as there are
// smaller keys in the other.
__global__ void MergeRunsKernel(int64_t count, int log_width, const Key* from, Key* to) {
  const int64_t width = int64_t{1} << log_width;
  SNUG_CUDA_FOR(i, count) {
    const Key own = from[i];
    const int64_t run = i >> log_width;
    const int64_t other = (run ^ 1) << log_width;
    int64_t low = other < count ? other : count;
    const int64_t first = low;
    int64_t high = other + width < count ? other + width : count;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (from[middle] < own) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    to[((run & ~int64_t{1}) << log_width) + (i - (run << log_width)) + (low - first)] = own;
  }
}

// dx is [outer, rows, inner] and zero at first; dy is [outer, choices, inner]. For each row that was chosen, one block
// of threads adds up its sum in the order of the choices, with several of them in flight.
template <bool kWhole, class T>
__global__ void ScatterAddKernel(int64_t count, int64_t outer, int64_t rows, int64_t inner, const Key* sorted,
                                 const T* dy, T* dx) {
  using A = Accumulator<T>;
  constexpr int kPack = kWhole ? kCudaPack<T> : 1;
  constexpr int kFlight = 4;
  using Pack = CudaPack<T, kPack>;
  for (int64_t p = blockIdx.x; p < count; p += gridDim.x) {
    const int64_t row = RowOf(sorted[p]);
    if (row >= rows || (p > 0 && RowOf(sorted[p - 1]) == row)) continue;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = threadIdx.x * kPack; i < inner; i += blockDim.x * kPack) {
        const T* from = dy + o * count * inner + i;
        A sums[kPack] = {};
        for (int64_t at = p; at < count;) {
          Pack packs[kFlight] = {};
          int found = 0;
#pragma unroll
          for (int n = 0; n < kFlight; ++n) {
            if (at + n >= count || RowOf(sorted[at + n]) != row) continue;
            packs[n] = LoadPack<true, kPack>(from + PositionOf(sorted[at + n]) * inner, kPack);
            ++found;
          }
#pragma unroll
          for (int n = 0; n < kFlight; ++n) {
            for (int j = 0; n < found && j < kPack; ++j) sums[j] += static_cast<A>(packs[n].values[j]);
          }
          at += kFlight;
          if (found < kFlight) break;
        }
        Pack result;
        for (int j = 0; j < kPack; ++j) result.values[j] = static_cast<T>(sums[j]);
        StorePack<true>(result, dx + (o * rows + row) * inner + i, kPack);
      }
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
  const int64_t row_bytes = inner * SizeOf(k.input_type(x).dtype);
  return DispatchInteger(k.input_type(choices).dtype, [&](auto index) -> absl::Status {
    using Index = decltype(index);
    const auto* chosen = k.input<Index>(choices);
    if (row_bytes % 16 == 0 && IsAligned(k.input<void>(x)) && IsAligned(k.output<void>(0))) {
      const int64_t outer = shape.Count(0, axis);
      const int64_t blocks = std::min<int64_t>(cuda::CountBlocks(outer * count, kCudaThreads / 32), 1 << 16);
      return k.cuda()->Launch(GatherPacksKernel<Index>, {.blocks = blocks, .threads = kCudaThreads}, outer, shape[axis],
                              count, row_bytes / 16, k.input<uint32_t>(x), chosen, k.output<uint32_t>(0));
    }
    return DispatchBytes(SizeOf(k.input_type(x).dtype), [&](auto zero) {
      using T = decltype(zero);
      return k.cuda()->Launch(GatherKernel<T, Index>, ShapeFor(n), n, shape[axis], count, inner, CudaDivisor(count, n),
                              CudaDivisor(inner, n), k.input<T>(x), chosen, k.output<T>(0));
    });
  });
}

absl::Status ScatterAddRowsCuda(const KernelContext& k, int choices, int dy, int axis) {
  const Shape& shape = k.output_type(0).shape;
  const int64_t rows = shape[axis];
  const int64_t inner = shape.Count(axis + 1, shape.rank());
  const int64_t count = k.input_type(choices).num_elements();
  auto* sorted = k.workspace<Key>();
  Key* other = sorted + count;
  SNUG_RETURN_IF_ERROR(k.cuda()->Clear(k.output<void>(0), k.output_type(0).size_bytes()));
  SNUG_RETURN_IF_ERROR(DispatchInteger(k.input_type(choices).dtype, [&](auto index) {
    using Index = decltype(index);
    return k.cuda()->Launch(SortBlocksKernel<Index>,
                            {.blocks = cuda::CountBlocks(count, kSortedByBlock), .threads = kCudaThreads}, count, rows,
                            k.input<Index>(choices), sorted);
  }));
  for (int log_width = kLogSortedByBlock; (int64_t{1} << log_width) < count; ++log_width) {
    SNUG_RETURN_IF_ERROR(k.cuda()->Launch(MergeRunsKernel, ShapeFor(count), count, log_width, sorted, other));
    std::swap(sorted, other);
  }
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* from = k.input<T>(dy);
    T* to = k.output<T>(0);
    const bool whole = inner % kCudaPack<T> == 0 && IsAligned(from) && IsAligned(to);
    return k.cuda()->Launch(whole ? ScatterAddKernel<true, T> : ScatterAddKernel<false, T>,
                            {.blocks = std::min<int64_t>(count, 1 << 16), .threads = 128}, count, shape.Count(0, axis),
                            rows, inner, sorted, from, to);
  });
}

}  // namespace snug::core
