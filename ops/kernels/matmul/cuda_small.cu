// Small products (cuda_small.h). What such a kernel takes is the time until its first data come, so a block asks for
// all of a piece of the sum at once, 32 KiB, and for the next piece before it begins to compute.
//
// A block has 16 x 8 results, 16 x 16 or 32 x 32. A thread has 4 x 4 of them; as many threads as there are such parts
// are a share of the block. The terms of the sum are dealt out to the shares, 4 to each in turn. At the end the sums of
// the shares are added in order. So a result has the same bits each time, and the shape alone decides them.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "engine/base/status.h"
#include "ops/kernels/matmul/cuda_small.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/dispatch.h"
#include "ops/math/functions.h"

namespace snug::core {
namespace {

constexpr int kOwn = 4;  // so many rows and columns, and terms of the sum at a time, are a thread's

// c [m, n] = a [m, k] b [k, n], and what comes in the same sweep (MatMulNode); what is not wanted is null.
template <class T>
struct SmallProduct {
  const T *a, *b, *bias, *after_relu;
  T *c, *gelu, *sums_a;
  int m, n, k;
  bool whole_a, whole_b;  // rows begin at multiples of 16 bytes and have as many
  Activation activation;

  __device__ void Store(int row, int column, Accumulator<T> sum) const {
    using A = Accumulator<T>;
    const int64_t at = static_cast<int64_t>(row) * n + column;
    if (bias != nullptr) sum += static_cast<A>(bias[column]);
    T result = static_cast<T>(Activate(activation, sum));
    if (after_relu != nullptr) {
      result = static_cast<T>(functions::ReluGrad()(static_cast<A>(after_relu[at]), static_cast<A>(result)));
    }
    c[at] = result;
    if (gelu != nullptr) gelu[at] = static_cast<T>(functions::GeluByTanh()(static_cast<A>(result)));
  }
};

// How kRows x kColumns results are shared by the threads of a block.
template <class A, int kRows, int kColumns>
struct SmallTile {
  static constexpr int kThreads = kRows * kColumns / (kOwn * kOwn);  // of a share
  static constexpr int kShares = kCudaThreads / kThreads;
  static constexpr int kStep = kShares * kOwn;                                    // terms that all shares take in turn
  static constexpr int kDepth = (1 << 14) / static_cast<int>(sizeof(A)) / kRows;  // terms of a piece of the sum
  static constexpr int kPlane = kCudaThreads + 8;                                 // keeps banks apart
  static constexpr int kSums = kOwn * kOwn * kPlane;                              // of all threads
  static_assert(kDepth % kStep == 0 && kCudaThreads % kRows == 0);
  static_assert(kRows == kColumns || (kRows == 16 && kColumns == 8));

  // Bits of a thread's number in its share are those of its column and its row in turn, so that neighbours read the
  // same operand from shared memory, which then is one access.
  static __device__ int Row(int thread) {
    if (kRows > kColumns) return thread >> 1;
    return (thread >> 1 & 1) | (thread >> 2 & 2) | (thread >> 3 & 4);
  }
  static __device__ int Column(int thread) {
    if (kRows > kColumns) return thread & 1;
    return (thread & 1) | (thread >> 1 & 2) | (thread >> 2 & 4);
  }
  static __device__ int Thread(int row, int column) {
    if (kRows > kColumns) return row << 1 | column;
    return (column & 1) | (row & 1) << 1 | (column & 2) << 1 | (row & 2) << 2 | (column & 4) << 2 | (row & 4) << 3;
  }
};

// An operand's part of it: kLines lines (rows of a, columns of b) with a piece of the sum. With kAlongSum terms are
// neighbours in memory, otherwise lines are; it lies the same way in shared memory, so that whatever reads or writes it
// takes 16 bytes at a time. There is room after each row, so that the threads that read at once find other banks.
template <class T, class Tile, int kLines, bool kAlongSum>
struct SmallOperand {
  using A = Accumulator<T>;
  static constexpr int kDepth = Tile::kDepth;
  static constexpr int kPack = kCudaPack<T>;
  static constexpr int kColumns = kAlongSum ? kDepth : kLines;  // of a row in memory
  static constexpr int kPacks = kLines * kDepth / kPack / kCudaThreads;
  static constexpr int kPitch = kAlongSum ? kDepth + 8 : kLines + (Tile::kThreads < 16 ? 4 : 0);
  static constexpr int kSize = (kAlongSum ? kLines : kDepth) * kPitch;
  static constexpr int kPlaces = kLines / kOwn;
  static constexpr int kQuad = kPack < kCudaPack<A> ? kPack : kCudaPack<A>;
  static_assert(kPacks > 0 && kQuad * sizeof(A) == 16);

  CudaPack<T, kPack> packs[kPacks];

  // Which of a thread's packs lies where: in a row from a column on.
  static __device__ int RowOf(int i) { return (static_cast<int>(threadIdx.x) + i * kCudaThreads) / (kColumns / kPack); }
  static __device__ int ColumnOf(int i) {
    return (static_cast<int>(threadIdx.x) + i * kCudaThreads) % (kColumns / kPack) * kPack;
  }

  // Reads from where the piece begins. So many lines and terms are there; zeros take the place of the others.
  template <bool kWhole>
  __device__ void LoadAs(const T* from, int64_t stride, int lines, int terms) {
    const int rows = kAlongSum ? lines : terms;
    const int columns = kAlongSum ? terms : lines;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int row = RowOf(i);
      const int column = ColumnOf(i);
      if (row < rows && column < columns) {
        packs[i] = LoadPack<kWhole, kPack>(from + row * stride + column, columns - column);
      } else {
        packs[i] = {};
      }
    }
  }
  __device__ void Load(const T* matrix, int64_t stride, bool whole, int first_line, int lines, int first_term,
                       int terms) {
    const T* const from = matrix + (kAlongSum ? first_line * stride + first_term : first_term * stride + first_line);
    if (whole) {
      LoadAs<true>(from, stride, lines, terms);
    } else {
      LoadAs<false>(from, stride, lines, terms);
    }
  }

  // Writes the first terms to shared memory.
  __device__ void Store(A* shared, int terms) const {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int row = RowOf(i);
      const int column = ColumnOf(i);
      if ((kAlongSum ? column : row) >= terms) continue;
#pragma unroll
      for (int j = 0; j < kPack; j += kQuad) {
        CudaPack<A, kQuad> quad;
        for (int l = 0; l < kQuad; ++l) quad.values[l] = static_cast<A>(packs[i].values[j + l]);
        A* const to = shared + row * kPitch + column + j;
#if defined(__CUDA_ARCH__)
        *reinterpret_cast<uint4*>(to) = std::bit_cast<uint4>(quad);
#else
        *reinterpret_cast<CudaPack<A, kQuad>*>(to) = quad;
#endif
      }
    }
  }

  // The line that a thread in this place has as its i-th.
  static __device__ int Line(int place, int i) { return kAlongSum ? place + i * kPlaces : place * kOwn + i; }
  // The thread's place, and which of its lines this one is.
  static __device__ int PlaceOf(int line) { return kAlongSum ? line % kPlaces : line / kOwn; }
  static __device__ int NumberOf(int line) { return kAlongSum ? line / kPlaces : line % kOwn; }

  // Reads kOwn lines with the terms from `term` on.
  static __device__ void Read(const A* shared, int place, int term, A (&lines)[kOwn][kOwn]) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const A* const from = shared + (kAlongSum ? Line(place, i) * kPitch + term : (term + i) * kPitch + place * kOwn);
      const auto pack = LoadWhole<CudaPack<A, kOwn>>(from);
      for (int j = 0; j < kOwn; ++j) (kAlongSum ? lines[i][j] : lines[j][i]) = pack.values[j];
    }
  }
  static __device__ A One(const A* shared, int line, int term) {
    return shared[kAlongSum ? line * kPitch + term : term * kPitch + line];
  }
};

template <class T, bool kAAlongSum, bool kBAlongSum, int kRows, int kColumns>
__global__ void __launch_bounds__(kCudaThreads) SmallProductKernel(SmallProduct<T> product) {
  using A = Accumulator<T>;
  using Tile = SmallTile<A, kRows, kColumns>;
  using FromA = SmallOperand<T, Tile, kRows, kAAlongSum>;
  using FromB = SmallOperand<T, Tile, kColumns, kBAlongSum>;
  constexpr int kSumsOfLines = Tile::kSums;  // where a's own sums lie, after those of the threads
  constexpr int kNumbers = std::max(FromA::kSize + FromB::kSize, Tile::kSums + kCudaThreads);
  __shared__ CudaPack<A, kOwn> memory[(kNumbers + kOwn - 1) / kOwn];
  A* const shared = reinterpret_cast<A*>(memory);
  A* const shared_a = shared;
  A* const shared_b = shared + FromA::kSize;
  const int thread = static_cast<int>(threadIdx.x);
  const int share = thread / Tile::kThreads;
  const int row = Tile::Row(thread % Tile::kThreads);
  const int column = Tile::Column(thread % Tile::kThreads);
  const int first_row = static_cast<int>(blockIdx.y) * kRows;
  const int first_column = static_cast<int>(blockIdx.x) * kColumns;
  const int64_t stride_a = kAAlongSum ? product.k : product.m;
  const int64_t stride_b = kBAlongSum ? product.k : product.n;
  const bool sums_lines = product.sums_a != nullptr && blockIdx.x == 0;
  FromA from_a;
  FromB from_b;
  const auto load = [&](int term) {
    from_a.Load(product.a, stride_a, product.whole_a, first_row, product.m - first_row, term, product.k - term);
    from_b.Load(product.b, stride_b, product.whole_b, first_column, product.n - first_column, term, product.k - term);
  };
  A sums[kOwn][kOwn] = {};
  A line_sum = 0;
  load(0);
  for (int begin = 0; begin < product.k; begin += Tile::kDepth) {
    const int left = product.k - begin;
    const int terms = left < Tile::kDepth ? (left + Tile::kStep - 1) / Tile::kStep * Tile::kStep : Tile::kDepth;
    if (begin > 0) __syncthreads();
    from_a.Store(shared_a, terms);
    from_b.Store(shared_b, terms);
    __syncthreads();
    if (left > Tile::kDepth) load(begin + Tile::kDepth);
    for (int term = share * kOwn; term < terms; term += Tile::kStep) {
      A left_lines[kOwn][kOwn], right_lines[kOwn][kOwn];
      FromA::Read(shared_a, row, term, left_lines);
      FromB::Read(shared_b, column, term, right_lines);
#pragma unroll
      for (int l = 0; l < kOwn; ++l) {
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
#pragma unroll
          for (int j = 0; j < kOwn; ++j) sums[i][j] += left_lines[i][l] * right_lines[j][l];
        }
      }
    }
    if (sums_lines) {
      for (int term = thread / kRows; term < terms; term += kCudaThreads / kRows) {
        line_sum += FromA::One(shared_a, thread % kRows, term);
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kOwn * kOwn; ++i) shared[i * Tile::kPlane + thread] = sums[i / kOwn][i % kOwn];
  if (sums_lines) shared[kSumsOfLines + thread] = line_sum;
  __syncthreads();
  for (int i = thread; i < kRows * kColumns; i += kCudaThreads) {
    const int line_a = i / kColumns;
    const int line_b = i % kColumns;
    const A* const from = shared + (FromA::NumberOf(line_a) * kOwn + FromB::NumberOf(line_b)) * Tile::kPlane +
                          Tile::Thread(FromA::PlaceOf(line_a), FromB::PlaceOf(line_b));
    A sum = from[0];
#pragma unroll
    for (int other = 1; other < Tile::kShares; ++other) sum += from[other * Tile::kThreads];
    if (first_row + line_a < product.m && first_column + line_b < product.n) {
      product.Store(first_row + line_a, first_column + line_b, sum);
    }
  }
  if (sums_lines && thread < kRows && first_row + thread < product.m) {
    A sum = shared[kSumsOfLines + thread];
    for (int other = 1; other < kCudaThreads / kRows; ++other) sum += shared[kSumsOfLines + other * kRows + thread];
    product.sums_a[first_row + thread] = static_cast<T>(sum);
  }
}

template <class T, bool kAAlongSum, bool kBAlongSum>
absl::Status Run(const KernelContext& k, const MatMulNode& node) {
  const T* const a = k.input<T>(node.a);
  const T* const b = k.input<T>(node.b);
  const SmallProduct<T> product = {.a = a,
                                   .b = b,
                                   .bias = node.bias < 0 ? nullptr : k.input<T>(node.bias),
                                   .after_relu = node.slope_at < 0 ? nullptr : k.input<T>(node.slope_at),
                                   .c = k.output<T>(0),
                                   .gelu = node.gelu ? k.output<T>(1) : nullptr,
                                   .sums_a = node.sums_a ? k.output<T>(1) : nullptr,
                                   .m = static_cast<int>(node.m),
                                   .n = static_cast<int>(node.n),
                                   .k = static_cast<int>(node.k),
                                   .whole_a = (kAAlongSum ? node.k : node.m) % kCudaPack<T> == 0 && IsAligned(a),
                                   .whole_b = (kBAlongSum ? node.k : node.n) % kCudaPack<T> == 0 && IsAligned(b),
                                   .activation = node.activation};
  const auto launch = [&]<int kRows, int kColumns>(std::integer_sequence<int, kRows, kColumns>) {
    return k.cuda()->Launch(SmallProductKernel<T, kAAlongSum, kBAlongSum, kRows, kColumns>,
                            {.blocks = cuda::CountBlocks(node.n, kColumns),
                             .blocks_y = cuda::CountBlocks(node.m, kRows),
                             .threads = kCudaThreads},
                            product);
  };
  // As many blocks as there are processors, or about two for each; beyond that operands had better be read less often.
  constexpr int64_t kOneEach = 128, kMost = 256;
  const auto blocks = [&](int64_t rows, int64_t columns) {
    return cuda::CountBlocks(node.m, rows) * cuda::CountBlocks(node.n, columns);
  };
  if (blocks(16, 8) <= kOneEach) return launch(std::integer_sequence<int, 16, 8>());
  if (blocks(16, 16) <= kMost) return launch(std::integer_sequence<int, 16, 16>());
  return launch(std::integer_sequence<int, 32, 32>());
}

}  // namespace

absl::Status RunSmallProduct(const KernelContext& k, const MatMulNode& node) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    if (node.transpose_a) return node.transpose_b ? Run<T, false, true>(k, node) : Run<T, false, false>(k, node);
    return node.transpose_b ? Run<T, true, true>(k, node) : Run<T, true, false>(k, node);
  });
}

}  // namespace snug::core
