// Matrix products whose operands are gathered and whose results are scattered by functions: one kernel for everything
// that is a matrix product under some indexing. It is for .cu files.
//
// A block computes a tile of 64 x 64; the operands for 16 terms of the sum at a time go through shared memory, and each
// thread has 4 x 4 results. A Product says, for its `Value` type:
//
//   kAAlongSum, kBAlongSum;                         // whether neighbours along the sum are neighbours in memory
//   Row row(count, m), Column column(count, n);     // what can be worked out once for a thread
//   Acc a(row, k), b(column, k);                    // elements
//   void Store(count, m, n, sum);
#pragma once

#include <absl/status/status.h>

#include <algorithm>
#include <cstdint>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kernels/reduce/combine.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/reduce_steps.h"

namespace snug::core {

// How a matrix product is spread over a device, by its size alone, so that its workspace is known before it runs:
// c [m, n] = a [m, k] b [k, n], `count` times.
struct CudaGemmSize {
  static constexpr int kTile = 64;
  static constexpr int64_t kNarrow = 16;

  int64_t m, n, k, count;

  // Says whether tiles would be mostly empty, as in a depthwise convolution: then each result is computed by itself.
  bool narrow() const { return m < kNarrow || n < kNarrow; }
  bool short_sums() const { return k <= 256; }
  int64_t tiles_m() const { return (m + kTile - 1) / kTile; }
  int64_t tiles_n() const { return (n + kTile - 1) / kTile; }
  // Returns into how many parts, which are added in order, the long sums of small results are cut.
  int64_t parts() const {
    if (narrow()) return 1;
    const int64_t blocks = std::max<int64_t>(tiles_m() * tiles_n() * count, 1);
    return std::clamp<int64_t>(std::min(k / 256, 512 / blocks), 1, 64);
  }
  int64_t WorkspaceBytes(DType dtype) const {
    return parts() == 1 ? 0 : parts() * count * m * n * (dtype == DType::kFloat64 ? 8 : 4);
  }
};

inline constexpr int kGemmDepth = 16;

// Says which 4 of the 64 x 16 elements of a tile a thread loads: one term of the sum in four rows, so that neighbouring
// threads read along the sum, or four terms of one row.
template <bool kAlongSum>
struct TileLoads {
  template <class Line>
  struct Of {
    Line lines[4];

    template <class Make>
    __device__ void Begin(int thread, const Make& make) {
      for (int i = 0; i < 4; ++i) lines[i] = make(thread / kGemmDepth + 16 * i);
    }
    template <class Take>
    __device__ void Load(int thread, const Take& take) const {
      for (int i = 0; i < 4; ++i) take(lines[i], thread / kGemmDepth + 16 * i, thread % kGemmDepth);
    }
  };
};
template <>
struct TileLoads<false> {
  template <class Line>
  struct Of {
    Line line;

    template <class Make>
    __device__ void Begin(int thread, const Make& make) {
      line = make(thread % CudaGemmSize::kTile);
    }
    template <class Take>
    __device__ void Load(int thread, const Take& take) const {
      for (int i = 0; i < 4; ++i) take(line, thread % CudaGemmSize::kTile, thread / CudaGemmSize::kTile + 4 * i);
    }
  };
};
static_assert(kCudaThreads == 256 && CudaGemmSize::kTile == 64);

template <class Product>
__global__ void GemmKernel(Product product, CudaGemmSize size, int64_t tiles_n, int64_t parts,
                           Accumulator<typename Product::Value>* partial) {
  using A = Accumulator<typename Product::Value>;
  constexpr int kTile = CudaGemmSize::kTile;
  constexpr int kDepth = kGemmDepth;
  constexpr int kOwn = 4;  // so many rows and columns belong to a thread, 16 apart
  __shared__ A tile_a[kDepth][kTile + 1];
  __shared__ A tile_b[kDepth][kTile + 1];
  const int64_t m0 = blockIdx.x / tiles_n * kTile;
  const int64_t n0 = blockIdx.x % tiles_n * kTile;
  const int64_t part = blockIdx.z;
  const int64_t begin = size.k * part / parts;
  const int64_t end = size.k * (part + 1) / parts;
  const int thread = static_cast<int>(threadIdx.x);
  const int row = thread / 16;
  const int column = thread % 16;
  for (int64_t count = blockIdx.y; count < size.count; count += gridDim.y) {
    // Each thread loads elements such that neighbouring threads load what lies side by side.
    typename TileLoads<Product::kAAlongSum>::template Of<decltype(product.row(0, 0))> from_a;
    typename TileLoads<Product::kBAlongSum>::template Of<decltype(product.column(0, 0))> from_b;
    from_a.Begin(thread, [&](int lane) { return product.row(count, m0 + lane < size.m ? m0 + lane : 0); });
    from_b.Begin(thread, [&](int lane) { return product.column(count, n0 + lane < size.n ? n0 + lane : 0); });
    A sum[kOwn][kOwn] = {};
    for (int64_t k0 = begin; k0 < end; k0 += kDepth) {
      from_a.Load(thread, [&](const auto& from, int lane, int depth) {
        const bool inside = m0 + lane < size.m && k0 + depth < end;
        tile_a[depth][lane] = inside ? product.a(from, k0 + depth) : A(0);
      });
      from_b.Load(thread, [&](const auto& from, int lane, int depth) {
        const bool inside = n0 + lane < size.n && k0 + depth < end;
        tile_b[depth][lane] = inside ? product.b(from, k0 + depth) : A(0);
      });
      __syncthreads();
      for (int depth = 0; depth < kDepth; ++depth) {
        A left[kOwn], right[kOwn];
        for (int i = 0; i < kOwn; ++i) {
          left[i] = tile_a[depth][row + 16 * i];
          right[i] = tile_b[depth][column + 16 * i];
        }
        for (int i = 0; i < kOwn; ++i) {
          for (int j = 0; j < kOwn; ++j) sum[i][j] += left[i] * right[j];
        }
      }
      __syncthreads();
    }
    for (int i = 0; i < kOwn; ++i) {
      for (int j = 0; j < kOwn; ++j) {
        const int64_t m = m0 + row + 16 * i;
        const int64_t n = n0 + column + 16 * j;
        if (m >= size.m || n >= size.n) continue;
        if (parts == 1) {
          product.Store(count, m, n, sum[i][j]);
        } else {
          partial[((part * size.count + count) * size.m + m) * size.n + n] = sum[i][j];
        }
      }
    }
  }
}

template <class Product>
__global__ void AddPartsKernel(Product product, CudaGemmSize size, int64_t parts,
                               const Accumulator<typename Product::Value>* partial) {
  const int64_t results = size.count * size.m * size.n;
  SNUG_CUDA_FOR(i, results) {
    auto sum = partial[i];
    for (int64_t part = 1; part < parts; ++part) sum += partial[part * results + i];
    product.Store(i / size.n / size.m, i / size.n % size.m, i % size.n, sum);
  }
}

// Does narrow products: a thread computes each result, or a block does where sums are long.
template <class Product>
__global__ void EachByThreadKernel(Product product, CudaGemmSize size) {
  using A = Accumulator<typename Product::Value>;
  SNUG_CUDA_FOR(i, size.count * size.m * size.n) {
    const int64_t count = i / size.n / size.m;
    const auto from_a = product.row(count, i / size.n % size.m);
    const auto from_b = product.column(count, i % size.n);
    A sum = 0;
    for (int64_t k = 0; k < size.k; ++k) sum += product.a(from_a, k) * product.b(from_b, k);
    product.Store(count, i / size.n % size.m, i % size.n, sum);
  }
}

template <class Product>
__global__ void EachByBlockKernel(Product product, CudaGemmSize size) {
  using A = Accumulator<typename Product::Value>;
  for (int64_t i = blockIdx.x; i < size.count * size.m * size.n; i += gridDim.x) {
    const int64_t count = i / size.n / size.m;
    const auto from_a = product.row(count, i / size.n % size.m);
    const auto from_b = product.column(count, i % size.n);
    const double sum = BlockReduce<SumOp>(ReduceInSteps<SumOp, A>(
        threadIdx.x, size.k, blockDim.x, [&](int64_t k) { return product.a(from_a, k) * product.b(from_b, k); }));
    if (threadIdx.x == 0) product.Store(count, i / size.n % size.m, i % size.n, static_cast<A>(sum));
  }
}

template <class Product>
absl::Status RunGemm(const KernelContext& k, const Product& product, const CudaGemmSize& size) {
  using A = Accumulator<typename Product::Value>;
  const int64_t results = size.count * size.m * size.n;
  if (size.narrow() && size.short_sums()) {
    return k.cuda()->Launch(EachByThreadKernel<Product>, ShapeFor(results), product, size);
  }
  if (size.narrow()) {
    return k.cuda()->Launch(EachByBlockKernel<Product>,
                            {.blocks = std::min<int64_t>(results, 1 << 16), .threads = kCudaThreads}, product, size);
  }
  const int64_t parts = size.parts();
  auto* partial = parts == 1 ? nullptr : k.workspace<A>();
  SNUG_RETURN_IF_ERROR(k.cuda()->Launch(GemmKernel<Product>,
                                        {.blocks = size.tiles_m() * size.tiles_n(),
                                         .blocks_y = std::min<int64_t>(size.count, 1 << 15),
                                         .blocks_z = parts,
                                         .threads = kCudaThreads},
                                        product, size, size.tiles_n(), parts, partial));
  if (parts == 1) return absl::OkStatus();
  return k.cuda()->Launch(AddPartsKernel<Product>, ShapeFor(results), product, size, parts, partial);
}

}  // namespace snug::core
