// Works along the columns of arrays that lie as [samples, rows, columns]: sums over rows (statistics and gradients of
// channels, of biases, of the weights of norms), and sweeps in which a thread knows its columns' constants. Samples are
// for what differs from one to the next, as the statistics of groups; else there is one. It is for .cu files.
//
// A block has a tile of 64 columns and goes down the rows. A thread has 16 bytes of a row, so the threads of a warp
// read whole lines of 128 bytes, and has several rows in flight. At most 64 numbers are added in float; then a block
// adds what its threads have, first by shuffles, then in double, and a second kernel adds what blocks have. All is cut
// by shapes alone and added in a fixed order, so the bits are always the same.
//
//   struct Squares {  // the sum over rows of x * x
//     static constexpr int kSums = 1;
//     using T = float;
//     // Constants of a thread's columns. All threads of a block call it, with a count of 0 or less if they have none.
//     template <int kPack>
//     __device__ Columns<kPack> ColumnsOfBlock(int64_t sample, int64_t column, int count) const;
//     template <int kPack>
//     using Row = CudaPack<T, kPack>;  // what is loaded of a row; rows are counted through all samples
//     template <bool kWhole, int kPack>
//     __device__ Row<kPack> Load(int64_t row, int64_t at, int count) const;  // at = row * columns + column
//     // Adds to the sums. It may also store something.
//     template <bool kWhole, int kPack>
//     __device__ void Use(const Columns<kPack>&, const Row<kPack>&, int64_t at, int count, float (&sums)[1][kPack])
//     const;
//     __device__ void Take(int64_t column, const double (&totals)[1]) const;
//   };
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernel_context.h"
#include "ops/kernels/reduce/combine.h"
#include "ops/kit/cuda_kernel.h"

namespace snug::core {

// Says how the rows of each sample are spread over blocks.
struct ColumnTiles {
  static constexpr int kColumns = 64;
  static constexpr int64_t kMostRows = 1024;  // of one block that sums: at most 64 for each thread
  static constexpr int64_t kLeastRows = 128;
  static constexpr int64_t kEnoughBlocks = 1024;

  ColumnTiles(int64_t rows_of_sample, int64_t all_columns, int64_t all_samples = 1)
      : rows(rows_of_sample), columns(all_columns), samples(all_samples) {
    tiles = cuda::CountBlocks(columns, kColumns);
    const int64_t useful = cuda::CountBlocks(kEnoughBlocks, std::max<int64_t>(tiles * samples, 1));
    const int64_t wanted = std::max(cuda::CountBlocks(rows, kMostRows), std::min(useful, rows / kLeastRows));
    rows_in_part = std::max<int64_t>(cuda::CountBlocks(rows, std::clamp<int64_t>(wanted, 1, 65535)), 1);
    parts = cuda::CountBlocks(rows, rows_in_part);
  }
  // The sums of all blocks are [samples, parts, sums, columns].
  int64_t WorkspaceBytes(int sums) const {
    return samples * parts * sums * columns * static_cast<int64_t>(sizeof(double));
  }

  int64_t rows, columns, samples;
  int64_t tiles, parts;  // blocks along x (those of all samples) and y
  int64_t rows_in_part;
};

namespace internal {

// How many rows are in flight where packs are read number by number, each of which is in flight by itself.
template <int kFlight>
inline constexpr int kFewerInFlight = kFlight < 2 ? kFlight : 2;

// Where a thread of a block is in its tile.
template <int kPack>
struct ColumnPlace {
  static constexpr int kAcross = ColumnTiles::kColumns / kPack;  // threads side by side
  static constexpr int kDown = kCudaThreads / kAcross;           // rows at a time

  int64_t sample, column;
  int count;  // of the thread's columns; none or less: the tile is wider than the array
  int down;

  // Blocks along x are tiles of one sample after the other.
  __device__ ColumnPlace(int64_t columns, int64_t tiles) {
    const int across = static_cast<int>(threadIdx.x) % kAcross;
    sample = blockIdx.x / static_cast<uint32_t>(tiles);
    column = (blockIdx.x - sample * tiles) * ColumnTiles::kColumns + across * kPack;
    count = columns - column < kPack ? static_cast<int>(columns - column) : kPack;
    down = static_cast<int>(threadIdx.x) / kAcross;
  }
};

// Calls terms.Use for the thread's columns of the rows [begin, end), kFlight of them after all are loaded.
template <bool kWhole, int kFlight, int kPack, class Terms, class Columns, class Sums>
__device__ inline void UseRows(const Terms& terms, const ColumnPlace<kPack>& place, int64_t begin, int64_t end,
                               int64_t columns, const Columns& of_columns, Sums& sums) {
  constexpr int kDown = ColumnPlace<kPack>::kDown;
  int64_t row = begin + place.down;
  int64_t at = row * columns + place.column;
  const int64_t step = kDown * columns;
  for (; row + (kFlight - 1) * kDown < end; row += kFlight * kDown, at += kFlight * step) {
    typename Terms::template Row<kPack> rows[kFlight];
#pragma unroll
    for (int i = 0; i < kFlight; ++i)
      rows[i] = terms.template Load<kWhole, kPack>(row + i * kDown, at + i * step, place.count);
#pragma unroll
    for (int i = 0; i < kFlight; ++i) {
      terms.template Use<kWhole, kPack>(of_columns, rows[i], at + i * step, place.count, sums);
    }
  }
#pragma unroll 1
  for (; row < end; row += kDown, at += step) {
    terms.template Use<kWhole, kPack>(of_columns, terms.template Load<kWhole, kPack>(row, at, place.count), at,
                                      place.count, sums);
  }
}

}  // namespace internal

template <bool kWhole, int kFlight, class Terms>
__global__ void __launch_bounds__(kCudaThreads, 2) SumColumnsKernel(ColumnTiles tiles, Terms terms, double* sums) {
  using T = typename Terms::T;
  using A = Accumulator<T>;
  constexpr int kPack = kCudaPack<T>;
  constexpr int kAcross = internal::ColumnPlace<kPack>::kAcross;
  constexpr int kGroups = kCudaThreads / 32;  // warps
  static_assert(kAcross <= 32);
  __shared__ A of_warps[kGroups][Terms::kSums][ColumnTiles::kColumns];

  const internal::ColumnPlace<kPack> place(tiles.columns, tiles.tiles);
  A own[Terms::kSums][kPack] = {};
  const auto of_columns = terms.template ColumnsOfBlock<kPack>(place.sample, place.column, place.count);
  if (place.count > 0) {
    const int64_t first = place.sample * tiles.rows;
    const int64_t begin = first + blockIdx.y * tiles.rows_in_part;
    const int64_t end =
        first + tiles.rows < begin + tiles.rows_in_part ? first + tiles.rows : begin + tiles.rows_in_part;
    internal::UseRows<kWhole, kFlight>(terms, place, begin, end, tiles.columns, of_columns, own);
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int s = 0; s < Terms::kSums; ++s) {
    for (int j = 0; j < kPack; ++j) {
      for (int lanes = kAcross; lanes < 32; lanes *= 2) own[s][j] += __shfl_xor_sync(0xffffffffU, own[s][j], lanes);
      if (lane < kAcross) of_warps[threadIdx.x / 32][s][lane * kPack + j] = own[s][j];
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < Terms::kSums * ColumnTiles::kColumns; i += kCudaThreads) {
    const int s = i / ColumnTiles::kColumns;
    const int64_t column =
        (blockIdx.x - place.sample * tiles.tiles) * ColumnTiles::kColumns + i % ColumnTiles::kColumns;
    if (column >= tiles.columns) continue;
    double total = 0;
    for (int warp = 0; warp < kGroups; ++warp) {
      total += static_cast<double>(of_warps[warp][s][i % ColumnTiles::kColumns]);
    }
    sums[((place.sample * tiles.parts + blockIdx.y) * Terms::kSums + s) * tiles.columns + column] = total;
  }
}

// Adds up the parts' sums of each column in order, and gives the results to terms.Take.
template <class Terms>
__global__ void TakeColumnSumsKernel(int64_t columns, int64_t parts, Terms terms, const double* sums) {
  constexpr int kAcross = 8;
  constexpr int kDown = kCudaThreads / kAcross;
  constexpr int kFlight = 4;
  __shared__ double of_threads[Terms::kSums][kDown][kAcross];
  const int across = static_cast<int>(threadIdx.x) % kAcross;
  const int down = static_cast<int>(threadIdx.x) / kAcross;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kAcross + across;
  for (int s = 0; s < Terms::kSums; ++s) {
    double total = 0;
    if (column < columns) {
      const auto at = [&](int64_t part) { return sums[(part * Terms::kSums + s) * columns + column]; };
      int64_t part = down;
      for (; part + (kFlight - 1) * kDown < parts; part += kFlight * kDown) {
        double some[kFlight];
#pragma unroll
        for (int i = 0; i < kFlight; ++i) some[i] = at(part + i * kDown);
#pragma unroll
        for (int i = 0; i < kFlight; ++i) total += some[i];
      }
      for (; part < parts; part += kDown) total += at(part);
    }
    of_threads[s][down][across] = total;
  }
  __syncthreads();
  if (down > 0 || column >= columns) return;
  double totals[Terms::kSums] = {};
  for (int s = 0; s < Terms::kSums; ++s) {
    for (int i = 0; i < kDown; ++i) totals[s] += of_threads[s][i][across];
  }
  terms.Take(column, totals);
}

template <class Terms>
absl::Status TakeColumnSums(const KernelContext& k, int64_t columns, int64_t parts, const Terms& terms,
                            const double* sums) {
  return k.cuda()->Launch(TakeColumnSumsKernel<Terms>,
                          {.blocks = cuda::CountBlocks(columns, 8), .threads = kCudaThreads}, columns, parts, terms,
                          sums);
}

// Leaves the sums of the parts in `sums`, ColumnTiles' workspace. `whole` says that all packs of 16 bytes are whole and
// lie at multiples of 16.
template <int kFlight, class Terms>
absl::Status SumColumnsInParts(const KernelContext& k, const ColumnTiles& tiles, const Terms& terms, bool whole,
                               double* sums) {
  return k.cuda()->Launch(whole ? SumColumnsKernel<true, kFlight, Terms>
                                : SumColumnsKernel<false, internal::kFewerInFlight<kFlight>, Terms>,
                          {.blocks = tiles.tiles * tiles.samples, .blocks_y = tiles.parts, .threads = kCudaThreads},
                          tiles, terms, sums);
}

// Sums the rows of all samples, and calls terms.Take.
template <int kFlight, class Terms>
absl::Status SumColumns(const KernelContext& k, const ColumnTiles& tiles, const Terms& terms, bool whole,
                        double* sums) {
  SNUG_RETURN_IF_ERROR(SumColumnsInParts<kFlight>(k, tiles, terms, whole, sums));
  return TakeColumnSums(k, tiles.columns, tiles.samples * tiles.parts, terms, sums);
}

struct NoSums {};

template <bool kWhole, int kFlight, class Terms>
__global__ void SweepColumnsKernel(int64_t rows, int64_t columns, int64_t tiles, int64_t rows_in_part, Terms terms) {
  constexpr int kPack = kCudaPack<typename Terms::T>;
  const internal::ColumnPlace<kPack> place(columns, tiles);
  const auto of_columns = terms.template ColumnsOfBlock<kPack>(place.sample, place.column, place.count);
  if (place.count <= 0) return;
  const int64_t first = place.sample * rows;
  const int64_t begin = first + blockIdx.y * rows_in_part;
  NoSums none;
  internal::UseRows<kWhole, kFlight>(terms, place, begin,
                                     first + rows < begin + rows_in_part ? first + rows : begin + rows_in_part, columns,
                                     of_columns, none);
}

// Uses the rows of all samples, without sums.
template <int kFlight, class Terms>
absl::Status SweepColumns(const KernelContext& k, int64_t rows, int64_t columns, const Terms& terms, bool whole,
                          int64_t samples = 1) {
  constexpr int64_t kLeastRows = 8 * internal::ColumnPlace<kCudaPack<typename Terms::T>>::kDown;
  constexpr int64_t kMostBlocks = 1 << 13;
  const int64_t tiles = cuda::CountBlocks(columns, ColumnTiles::kColumns);
  const int64_t parts =
      std::max<int64_t>(std::min(rows / kLeastRows, kMostBlocks / std::max<int64_t>(tiles * samples, 1)), 1);
  const int64_t rows_in_part = std::max<int64_t>(cuda::CountBlocks(rows, parts), 1);
  return k.cuda()->Launch(
      whole ? SweepColumnsKernel<true, kFlight, Terms>
            : SweepColumnsKernel<false, internal::kFewerInFlight<kFlight>, Terms>,
      {.blocks = tiles * samples, .blocks_y = cuda::CountBlocks(rows, rows_in_part), .threads = kCudaThreads}, rows,
      columns, tiles, rows_in_part, terms);
}

}  // namespace snug::core
