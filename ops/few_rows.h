// Says in how many launches the losses' and metrics' CUDA kernels work, by sizes alone: predictions
// (engine/run/observe/kernel_work.cc) have the same rule. A launch takes about as long as a block needs for a few rows,
// so what a single block does within that need not wait for a second kernel, which adds up the rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/dtype.h"
#include "ops/kit/cuda/threads.h"

namespace snug::core {

// Says whether one block does all rows, of which each takes so many threads.
constexpr bool FitOneBlock(int64_t rows, int64_t threads_of_row) {
  constexpr int64_t kInTurn = 4;
  return rows <= kInTurn * (kCudaThreads / threads_of_row);
}

// Says whether each block of a loss's gradient counts the labels by itself.
constexpr bool CountsInBlocks(int64_t rows) { return rows <= (1 << 12); }

// Returns how many numbers a thread of the losses' kernels takes at once: 16 bytes of them where rows can be read so.
inline int64_t NumbersInPack(int64_t width, DType dtype) {
  const int64_t whole = dtype == DType::kFloat64 ? 1 : 16 / SizeOf(dtype);
  return width % whole == 0 ? whole : 1;
}

// Returns how many threads of cross-entropy's kernel work on a row: a few lanes, a warp or a block. A thread holds up
// to four packs; longer rows are streamed.
constexpr int64_t kThreadsOfNarrowRow = 8;
constexpr int64_t kPacksHeld = 4;
constexpr int64_t CrossEntropyThreads(int64_t rows, int64_t width, int64_t pack) {
  const bool narrow = width <= kThreadsOfNarrowRow * pack * kPacksHeld;
  if (narrow && FitOneBlock(rows, kThreadsOfNarrowRow)) return kThreadsOfNarrowRow;
  return width <= 32 * pack * kPacksHeld ? 32 : kCudaThreads;
}
inline bool CrossEntropyFitsOneBlock(int64_t rows, int64_t width, DType dtype) {
  return FitOneBlock(rows, CrossEntropyThreads(rows, width, NumbersInPack(width, dtype)));
}
// Says whether the threads of a block hold a row, four packs each (DealRows); longer ones are streamed.
inline bool BlockHoldsRow(int64_t width, DType dtype) {
  return width <= kCudaThreads * NumbersInPack(width, dtype) * kPacksHeld;
}

// Returns how many threads of the metrics' kernel work on a row (LaunchRows).
constexpr int64_t ScoreThreads(int64_t width) { return width > 32 ? kCudaThreads : 1; }

// Returns how many blocks add up squared errors.
constexpr int64_t SquaredErrorBlocks(int64_t n) { return std::clamp<int64_t>((n + (1 << 13) - 1) >> 13, 1, 1 << 10); }

// Says whether the first input of all_finite is small enough for one block, which then needs no launch before it.
constexpr bool OneBlockTestsFinite(int64_t n) { return n <= (1 << 12); }

}  // namespace snug::core
