// Sums and sweeps over the channels of a value on a CUDA device. Channels-last data are columns (kit/cuda/columns.h,
// which says what `Terms` are); in plain layout a warp goes along runs of one channel, 16 bytes to a thread where these
// are whole packs. Terms::ColumnOf<kPack>(channel) gives the constants of a pack whose numbers are all of one channel.
// `row` is the outer index then. It is for .cu files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "engine/base/status.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/columns.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/reduce_steps.h"

namespace snug::core {

// What is done in plain layout, [outer, channels, inner]: a warp does a part of one channel, which is up to `chunk`
// elements of each of `outers` runs (of one, unless whole runs are chunks).
struct ChannelRuns {
  static constexpr int64_t kElements = 2048;  // of a part: at most 64 for each thread
  static constexpr int64_t kEnoughWarps = 1 << 13;

  explicit ChannelRuns(const ChannelView& view) : outer(view.outer), channels(view.channels), inner(view.inner) {
    chunk = std::min(inner, kElements);
    chunks = cuda::CountBlocks(inner, std::max<int64_t>(chunk, 1));
    const int64_t warps = std::max<int64_t>(outer * channels * chunks, 1);
    outers = std::max<int64_t>(std::min(kElements / std::max<int64_t>(chunk, 1), warps / kEnoughWarps), 1);
    parts = cuda::CountBlocks(outer, outers) * chunks;
  }
  int64_t blocks() const { return cuda::CountBlocks(parts * channels, kCudaThreads / 32); }

  int64_t outer, channels, inner;
  int64_t chunk, chunks, outers;
  int64_t parts;  // of each channel
};

// ChannelRuns as a kernel walks them: what a warp does is numbered through, pack by pack. 32 bits are enough for that.
struct CudaChannelRuns : ChannelRuns {
  CudaChannelRuns(const ChannelRuns& runs, int pack)
      : ChannelRuns(runs),
        packs(static_cast<uint32_t>(chunk / pack)),
        by_packs(packs, kElements + kElements),
        by_channels(channels, parts * channels),
        by_chunks(chunks, parts) {}
  uint32_t packs;  // of a chunk
  CudaDivisor by_packs, by_channels, by_chunks;
};

template <int kPack, int kFlight, class Terms>
__global__ void RunsKernel(CudaChannelRuns runs, Terms terms, double* sums) {
  using A = Accumulator<typename Terms::T>;
  const int64_t unit = static_cast<int64_t>(blockIdx.x) * (kCudaThreads / 32) + threadIdx.x / 32;
  if (unit >= runs.parts * runs.channels) return;
  const int64_t part = runs.by_channels.Divide(unit);
  const int64_t channel = unit - part * runs.channels;
  const int64_t of_outers = runs.by_chunks.Divide(part);
  const int64_t first = of_outers * runs.outers;
  const int64_t begin = (part - of_outers * runs.chunks) * runs.chunk;
  const auto outers = static_cast<uint32_t>(runs.outers < runs.outer - first ? runs.outers : runs.outer - first);
  const auto width = static_cast<uint32_t>(runs.chunk < runs.inner - begin ? runs.chunk : runs.inner - begin);
  const uint32_t count = outers * (width / kPack);
  const int64_t base = (first * runs.channels + channel) * runs.inner + begin;
  const int64_t stride = runs.channels * runs.inner;
  const auto of_channel = terms.template ColumnOf<kPack>(channel);
  A own[Terms::kSums + 1][kPack] = {};  // an array cannot be empty

  const uint32_t lane = threadIdx.x % 32;
  const auto outer_of = [&](uint32_t i) { return runs.by_packs.DivideShort(i); };
  const auto place_of = [&](uint32_t i) {
    const uint32_t outer = outer_of(i);
    return base + outer * stride + static_cast<int64_t>(i - outer * runs.packs) * kPack;
  };
  const auto load = [&](uint32_t i) {
    return terms.template Load<true, kPack>(first + outer_of(i), place_of(i), kPack);
  };
  uint32_t i = lane;
  for (; i + (kFlight - 1) * 32 < count; i += kFlight * 32) {
    typename Terms::template Row<kPack> rows[kFlight];
#pragma unroll
    for (int n = 0; n < kFlight; ++n) rows[n] = load(i + n * 32);
#pragma unroll
    for (int n = 0; n < kFlight; ++n) {
      terms.template Use<true, kPack>(of_channel, rows[n], place_of(i + n * 32), kPack, own);
    }
  }
#pragma unroll 1
  for (; i < count; i += 32) terms.template Use<true, kPack>(of_channel, load(i), place_of(i), kPack, own);

  for (int s = 0; s < Terms::kSums; ++s) {
    double total = 0;
    for (int j = 0; j < kPack; ++j) total += static_cast<double>(own[s][j]);
    total = WarpReduce<SumOp>(total);
    if (lane == 0) sums[(part * Terms::kSums + s) * runs.channels + channel] = total;
  }
}

namespace internal {

// Launches RunsKernel with the widest packs in which the runs can be read: 16 bytes, 8, or single numbers.
template <int kFlight, class Terms>
absl::Status LaunchRuns(const KernelContext& k, const ChannelRuns& runs, const Terms& terms, bool aligned,
                        double* sums) {
  constexpr int kMost = kCudaPack<typename Terms::T>;
  const auto with = [&]<int kPack>(std::integral_constant<int, kPack>) {
    return k.cuda()->Launch(RunsKernel<kPack, kFlight, Terms>, {.blocks = runs.blocks(), .threads = kCudaThreads},
                            CudaChannelRuns(runs, kPack), terms, sums);
  };
  if (aligned && runs.inner % kMost == 0) return with(std::integral_constant<int, kMost>());
  if constexpr (kMost > 2) {
    if (aligned && runs.inner % (kMost / 2) == 0) return with(std::integral_constant<int, kMost / 2>());
  }
  return with(std::integral_constant<int, 1>());
}

}  // namespace internal

// Returns the bytes of workspace for the parts of so many sums for each channel.
inline int64_t ChannelSumsBytes(const ChannelView& view, int sums) {
  if (view.inner == 1) return ColumnTiles(view.outer, view.channels).WorkspaceBytes(sums);
  return ChannelRuns(view).parts * view.channels * sums * static_cast<int64_t>(sizeof(double));
}

// Computes the sums of each channel, and calls terms.Take. `aligned` says that all arrays begin at multiples of 16
// bytes.
template <int kFlight, class Terms>
absl::Status SumChannels(const KernelContext& k, const ChannelView& view, const Terms& terms, bool aligned,
                         double* sums) {
  if (view.inner == 1) {
    const bool whole = aligned && view.channels % kCudaPack<typename Terms::T> == 0;
    return SumColumns<kFlight>(k, ColumnTiles(view.outer, view.channels), terms, whole, sums);
  }
  const ChannelRuns runs(view);
  SNUG_RETURN_IF_ERROR(internal::LaunchRuns<kFlight>(k, runs, terms, aligned, sums));
  return TakeColumnSums(k, view.channels, runs.parts, terms, sums);
}

// Uses all elements, without sums.
template <int kFlight, class Terms>
absl::Status SweepChannels(const KernelContext& k, const ChannelView& view, const Terms& terms, bool aligned) {
  if (view.inner == 1) {
    const bool whole = aligned && view.channels % kCudaPack<typename Terms::T> == 0;
    return SweepColumns<kFlight>(k, view.outer, view.channels, terms, whole);
  }
  return internal::LaunchRuns<kFlight>(k, ChannelRuns(view), terms, aligned, nullptr);
}

}  // namespace snug::core
