// Works along the columns of arrays that lie as [samples, rows, columns]: sums over rows (statistics and gradients of
// channels, of biases, of the weights of norms), and sweeps in which a thread knows its columns' constants. Samples are
// for what differs from one to the next, as the statistics of groups; else there is one. It is for .cu files.
//
// A block has a tile of columns and goes down the rows: 64 columns where these divide the array, else so many that few
// threads are idle, whole rows if they are short. A thread has 16 bytes of a row, so the threads of a warp read whole
// lines of memory, and has several rows in flight. At most 64 numbers are added in float; then a block adds in double
// what its threads have, and a second kernel adds what blocks have. All is cut by shapes alone and added in a fixed
// order, so the bits are always the same.
//
//   struct Squares {  // the sum over rows of x * x
//     static constexpr int kSums = 1;
//     using T = float;
//     // Constants of a thread's columns. All threads of a block call it, with a count of 0 or less if they have none.
//     template <int kPack>
//     __device__ Columns<kPack> ColumnsOfBlock(const ColumnPlace<kPack>& place) const;
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
#include "ops/kit/cuda/kernel.h"

namespace snug::core {

// How many columns a block has, a multiple of 8, and how its threads lie over them.
struct ColumnTile {
  static constexpr int kMost = 256;
  static constexpr int kUsual = 64;  // a line of memory, of bfloat16

  explicit ColumnTile(int64_t columns) : width(kUsual) {
    if (columns % kUsual == 0) return;
    // The widest of the tiles that keep nine of ten threads busy, or the one that keeps most of them. None is wider
    // than the array.
    const int64_t widest = std::min<int64_t>(kMost, cuda::CountBlocks(columns, 8) * 8);
    double most = 0;
    for (int candidate = 8; candidate <= widest; candidate += 8) {
      const auto covered = static_cast<double>(cuda::CountBlocks(columns, candidate) * candidate);
      const double threads = static_cast<double>(candidate / 8 * Down(candidate, 8)) / kCudaThreads;
      const double busy = std::min(static_cast<double>(columns) / covered * threads, 0.9);
      if (busy < most) continue;
      most = busy;
      width = candidate;
    }
  }
  // Returns how many rows a block reads at a time, in packs of so many columns.
  static SNUG_HOST_DEVICE int Down(int width, int pack) { return kCudaThreads / (width / pack); }

  int width;
};

// Says how the rows of each sample are spread over blocks.
struct ColumnTiles {
  static constexpr int64_t kEnoughBlocks = 1024;

  ColumnTiles(int64_t rows_of_sample, int64_t all_columns, int64_t all_samples = 1)
      : rows(rows_of_sample), columns(all_columns), samples(all_samples), tile(all_columns) {
    tiles = cuda::CountBlocks(columns, tile.width);
    // Of one block that sums: four rows for each thread with packs of 8 numbers, which it loads at once, and at most 64
    // with packs of 4.
    const int64_t least = 4 * ColumnTile::Down(tile.width, 8);
    const int64_t most = std::max<int64_t>(64 * ColumnTile::Down(tile.width, 4) / least, 1) * least;
    const int64_t useful = cuda::CountBlocks(kEnoughBlocks, std::max<int64_t>(tiles * samples, 1));
    const int64_t wanted = std::max(cuda::CountBlocks(rows, most), std::min(useful, rows / least));
    const int64_t even = cuda::CountBlocks(rows, std::clamp<int64_t>(wanted, 1, 65535));
    rows_in_part = std::max<int64_t>(cuda::CountBlocks(even, least), 1) * least;
    parts = cuda::CountBlocks(rows, rows_in_part);
  }
  // The sums of all blocks are [samples, parts, sums, columns].
  int64_t WorkspaceBytes(int sums) const {
    return samples * parts * sums * columns * static_cast<int64_t>(sizeof(double));
  }

  int64_t rows, columns, samples;
  ColumnTile tile;
  int64_t tiles, parts;  // blocks along x (those of all samples) and y
  int64_t rows_in_part;
};

// Where a thread of a block is in its tile.
template <int kPack>
struct ColumnPlace {
  int64_t sample, column;
  int count;      // of the thread's columns; none or less: the tile is wider than the array, or the thread is left over
  int64_t first;  // column of the tile
  int width;      // of the tile
  int across;     // threads side by side
  int rows;       // at a time
  int down;       // which of these

  // Blocks along x are tiles of one sample after the other.
  __device__ ColumnPlace(int64_t columns, int64_t tiles, const ColumnTile& tile)
      : width(tile.width), across(tile.width / kPack), rows(ColumnTile::Down(tile.width, kPack)) {
    const int thread = static_cast<int>(threadIdx.x);
    down = thread / across;
    sample = blockIdx.x / static_cast<uint32_t>(tiles);
    first = (blockIdx.x - sample * tiles) * width;
    column = first + (thread - down * across) * kPack;
    count = columns - column < kPack ? static_cast<int>(columns - column) : kPack;
    if (down >= rows) count = 0;
  }
};

namespace internal {

// How many rows are in flight where packs are read number by number, each of which is in flight by itself.
template <int kFlight>
inline constexpr int kFewerInFlight = kFlight < 2 ? kFlight : 2;

// Calls terms.Use for the thread's columns of the rows [begin, end), kFlight of them after all are loaded.
template <bool kWhole, int kFlight, int kPack, class Terms, class Columns, class Sums>
__device__ inline void UseRows(const Terms& terms, const ColumnPlace<kPack>& place, int64_t begin, int64_t end,
                               int64_t columns, const Columns& of_columns, Sums& sums) {
  const int down = place.rows;
  int64_t row = begin + place.down;
  int64_t at = row * columns + place.column;
  const int64_t step = down * columns;
  for (; row + (kFlight - 1) * down < end; row += kFlight * down, at += kFlight * step) {
    typename Terms::template Row<kPack> rows[kFlight];
#pragma unroll
    for (int i = 0; i < kFlight; ++i)
      rows[i] = terms.template Load<kWhole, kPack>(row + i * down, at + i * step, place.count);
#pragma unroll
    for (int i = 0; i < kFlight; ++i) {
      terms.template Use<kWhole, kPack>(of_columns, rows[i], at + i * step, place.count, sums);
    }
  }
  // Parts are multiples of what is loaded at once, so few blocks have rows left.
#pragma unroll 1
  for (; row < end; row += down, at += step) {
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
  // Of each sum, numbers in the same place of threads' packs lie side by side, with gaps of a row of threads, so that
  // threads that go along columns meet no bank twice.
  __shared__ A of_threads[Terms::kSums][kPack * kCudaThreads + ColumnTile::kMost];
  __shared__ double of_groups[Terms::kSums * ColumnTile::kMost];
  static_assert(Terms::kSums * ColumnTile::kMost >= kCudaThreads);

  const ColumnPlace<kPack> place(tiles.columns, tiles.tiles, tiles.tile);
  A own[Terms::kSums][kPack] = {};
  const auto of_columns = terms.template ColumnsOfBlock<kPack>(place);
  if (place.count > 0) {
    const int64_t first = place.sample * tiles.rows;
    const int64_t begin = first + blockIdx.y * tiles.rows_in_part;
    const int64_t end =
        first + tiles.rows < begin + tiles.rows_in_part ? first + tiles.rows : begin + tiles.rows_in_part;
    internal::UseRows<kWhole, kFlight>(terms, place, begin, end, tiles.columns, of_columns, own);
  }
  const int thread = static_cast<int>(threadIdx.x);
  const int line = kCudaThreads + place.across;
#pragma unroll
  for (int s = 0; s < Terms::kSums; ++s) {
#pragma unroll
    for (int j = 0; j < kPack; ++j) of_threads[s][j * line + thread] = own[s][j];
  }
  __syncthreads();
  // Groups of threads each add some of the rows for all sums of all columns, then what the groups have is added.
  const int totals = Terms::kSums * place.width;
  const int groups = totals < kCudaThreads ? kCudaThreads / totals : 1;
  for (int i = thread; i < totals * groups; i += kCudaThreads) {
    const int group = i / totals;
    const int s = (i - group * totals) / place.width;
    const int in_sum = i - group * totals - s * place.width;
    const int j = in_sum / place.across;
    const int across = in_sum - j * place.across;
    double total = 0;
#pragma unroll 4
    for (int down = group; down < place.rows; down += groups) {
      total += static_cast<double>(of_threads[s][j * line + down * place.across + across]);
    }
    of_groups[group * totals + s * place.width + across * kPack + j] = total;
  }
  __syncthreads();
  for (int i = thread; i < totals; i += kCudaThreads) {
    const int s = i / place.width;
    const int64_t column = place.first + i - s * place.width;
    if (column >= tiles.columns) continue;
    double total = 0;
    for (int group = 0; group < groups; ++group) total += of_groups[group * totals + i];
    sums[((place.sample * tiles.parts + blockIdx.y) * Terms::kSums + s) * tiles.columns + column] = total;
  }
}

// Adds up the parts' sums of each column in order, and gives the results to terms.Take.
template <class Terms>
__global__ void TakeColumnSumsKernel(int64_t columns, int64_t parts, Terms terms, const double* sums) {
  constexpr int kAcross = 8;
  constexpr int kDown = kCudaThreads / kAcross;
  constexpr int kWarps = kCudaThreads / 32;
  constexpr int kFlight = 8;
  __shared__ double of_warps[Terms::kSums][kWarps][kAcross];
  const int across = static_cast<int>(threadIdx.x) % kAcross;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kAcross + across;
  double own[Terms::kSums] = {};
  if (column < columns) {
    for (int64_t part = static_cast<int>(threadIdx.x) / kAcross; part < parts; part += kFlight * kDown) {
      double some[kFlight][Terms::kSums];
#pragma unroll
      for (int i = 0; i < kFlight; ++i) {
        const int64_t at = part + i * kDown;
#pragma unroll
        for (int s = 0; s < Terms::kSums; ++s) {
          some[i][s] = at < parts ? sums[(at * Terms::kSums + s) * columns + column] : 0;
        }
      }
#pragma unroll
      for (int i = 0; i < kFlight; ++i) {
#pragma unroll
        for (int s = 0; s < Terms::kSums; ++s) own[s] += some[i][s];
      }
    }
  }
#pragma unroll
  for (int s = 0; s < Terms::kSums; ++s) {
    for (int lanes = kAcross; lanes < 32; lanes *= 2) own[s] += __shfl_xor_sync(0xffffffffU, own[s], lanes);
    if (threadIdx.x % 32 < kAcross) of_warps[s][threadIdx.x / 32][across] = own[s];
  }
  __syncthreads();
  if (threadIdx.x >= kAcross || column >= columns) return;
  double totals[Terms::kSums] = {};
  for (int s = 0; s < Terms::kSums; ++s) {
    for (int warp = 0; warp < kWarps; ++warp) totals[s] += of_warps[s][warp][across];
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
__global__ void SweepColumnsKernel(int64_t rows, int64_t columns, ColumnTile tile, int64_t tiles, int64_t rows_in_part,
                                   Terms terms) {
  constexpr int kPack = kCudaPack<typename Terms::T>;
  const ColumnPlace<kPack> place(columns, tiles, tile);
  const auto of_columns = terms.template ColumnsOfBlock<kPack>(place);
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
  constexpr int64_t kMostBlocks = 1 << 13;
  const ColumnTile tile(columns);
  const int64_t at_once = kFlight * ColumnTile::Down(tile.width, kCudaPack<typename Terms::T>);
  const int64_t least = 8 / kFlight * at_once;
  const int64_t tiles = cuda::CountBlocks(columns, tile.width);
  const int64_t parts =
      std::max<int64_t>(std::min(rows / least, kMostBlocks / std::max<int64_t>(tiles * samples, 1)), 1);
  const int64_t rows_in_part =
      std::max<int64_t>(cuda::CountBlocks(cuda::CountBlocks(rows, parts), at_once), 1) * at_once;
  return k.cuda()->Launch(
      whole ? SweepColumnsKernel<true, kFlight, Terms>
            : SweepColumnsKernel<false, internal::kFewerInFlight<kFlight>, Terms>,
      {.blocks = tiles * samples, .blocks_y = cuda::CountBlocks(rows, rows_in_part), .threads = kCudaThreads}, rows,
      columns, tile, tiles, rows_in_part, terms);
}

}  // namespace snug::core
