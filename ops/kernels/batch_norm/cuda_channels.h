// Sums and sweeps over the channels of a value on a CUDA device. Channels-last data are columns (cuda_columns.h, which
// says what `Terms` are); in plain layout a warp goes along runs of one channel, whose constants
// Terms::ColumnOf(channel) gives. `row` is the outer index then. It is for .cu files.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/status.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kit/cuda_columns.h"
#include "ops/kit/cuda_kernel.h"

namespace snug::core {

// What is done in plain layout, [outer, channels, inner]: a warp does a part of one channel, which is up to `chunk`
// elements of each of `outers` runs.
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

template <class Terms>
__global__ void RunsKernel(ChannelRuns runs, Terms terms, double* sums) {
  using A = Accumulator<typename Terms::T>;
  const int64_t unit = static_cast<int64_t>(blockIdx.x) * (kCudaThreads / 32) + threadIdx.x / 32;
  if (unit >= runs.parts * runs.channels) return;
  const int64_t channel = unit % runs.channels;
  const int64_t part = unit / runs.channels;
  const int64_t first = part / runs.chunks * runs.outers;
  const int64_t last = first + runs.outers < runs.outer ? first + runs.outers : runs.outer;
  const int64_t begin = part % runs.chunks * runs.chunk;
  const int64_t end = begin + runs.chunk < runs.inner ? begin + runs.chunk : runs.inner;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto of_channel = terms.ColumnOf(channel);
  A own[Terms::kSums + 1][1] = {};  // an array cannot be empty
  for (int64_t outer = first; outer < last; ++outer) {
    const int64_t base = (outer * runs.channels + channel) * runs.inner;
    for (int64_t at = base + begin + lane; at < base + end; at += 32) {
      terms.template Use<true, 1>(of_channel, terms.template Load<true, 1>(outer, at, 1), at, 1, own);
    }
  }
  for (int s = 0; s < Terms::kSums; ++s) {
    double total = static_cast<double>(own[s][0]);
    for (int lanes = 16; lanes > 0; lanes /= 2) total += __shfl_xor_sync(0xffffffffU, total, lanes);
    if (lane == 0) sums[(part * Terms::kSums + s) * runs.channels + channel] = total;
  }
}

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
  SNUG_RETURN_IF_ERROR(
      k.cuda()->Launch(RunsKernel<Terms>, {.blocks = runs.blocks(), .threads = kCudaThreads}, runs, terms, sums));
  return TakeColumnSums(k, view.channels, runs.parts, terms, sums);
}

// Uses all elements, without sums.
template <int kFlight, class Terms>
absl::Status SweepChannels(const KernelContext& k, const ChannelView& view, const Terms& terms, bool aligned) {
  if (view.inner == 1) {
    const bool whole = aligned && view.channels % kCudaPack<typename Terms::T> == 0;
    return SweepColumns<kFlight>(k, view.outer, view.channels, terms, whole);
  }
  const ChannelRuns runs(view);
  return k.cuda()->Launch(RunsKernel<Terms>, {.blocks = runs.blocks(), .threads = kCudaThreads}, runs, terms, nullptr);
}

}  // namespace snug::core
