// Computes two sums for each channel of a value on a CUDA device: in parts, which are added up in order. What is
// summed, and what becomes of the sums, is said by `Terms`:
//
//   __device__ ChannelTerms<A> of(int64_t element, int64_t channel) const;
//   __device__ void Take(const ChannelView& view, int64_t channel, const ChannelSums& total) const;
//
// It is for .cu files.
#pragma once

#include <cstdint>

#include "engine/base/status.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kernels/batch_norm/cuda.h"
#include "ops/kit/cuda_kernel.h"
#include "ops/kit/cuda_reduce.h"

namespace snug::core {

template <class A>
struct ChannelTerms {
  A first, second;
};
struct ChannelSums {
  double first = 0, second = 0;
};

// Returns where element j of a channel lies, of the view.count() that it has.
__device__ inline int64_t ElementOf(const ChannelView& view, int64_t channel, int64_t j) {
  return (j / view.inner * view.channels + channel) * view.inner + j % view.inner;
}

// Adds up terms.of(element, channel) over some elements of a channel.
template <class A, class Terms>
__device__ ChannelSums SumChannelInSteps(const ChannelView& view, const Terms& terms, int64_t channel, int64_t begin,
                                         int64_t end, int64_t step) {
  constexpr int kInFloat = 64;
  ChannelSums total;
  for (int64_t j = begin; j < end;) {
    A first = 0;
    A second = 0;
    for (int n = 0; n < kInFloat && j < end; ++n, j += step) {
      const auto term = terms.of(ElementOf(view, channel, j), channel);
      first += term.first;
      second += term.second;
    }
    total.first += static_cast<double>(first);
    total.second += static_cast<double>(second);
  }
  return total;
}

// `sums` is [parts, channels].
template <class A, class Terms>
__global__ void ChannelsByBlockKernel(ChannelView view, Terms terms, ChannelSums* sums) {
  const int64_t channel = blockIdx.x;
  const int64_t count = view.count();
  const int64_t begin = count * blockIdx.y / gridDim.y;
  const int64_t end = count * (blockIdx.y + 1) / gridDim.y;
  const ChannelSums own = SumChannelInSteps<A>(view, terms, channel, begin + threadIdx.x, end, blockDim.x);
  const double first = BlockReduce<SumOp>(own.first);
  const double second = BlockReduce<SumOp>(own.second);
  if (threadIdx.x == 0) sums[blockIdx.y * view.channels + channel] = {first, second};
}

template <class A, class Terms>
__global__ void ChannelsByThreadKernel(ChannelView view, Terms terms, ChannelSums* sums) {
  const int64_t count = view.count();
  const int64_t begin = count * blockIdx.y / gridDim.y;
  const int64_t end = count * (blockIdx.y + 1) / gridDim.y;
  SNUG_CUDA_FOR(channel, view.channels) {
    sums[blockIdx.y * view.channels + channel] = SumChannelInSteps<A>(view, terms, channel, begin, end, 1);
  }
}

// Adds up the parts' sums of each channel in order, and gives the result to terms.Take.
template <class Terms>
__global__ void TakeChannelsKernel(ChannelView view, Terms terms, int64_t parts, const ChannelSums* sums) {
  SNUG_CUDA_FOR(channel, view.channels) {
    ChannelSums total;
    for (int64_t part = 0; part < parts; ++part) {
      total.first += sums[part * view.channels + channel].first;
      total.second += sums[part * view.channels + channel].second;
    }
    terms.Take(view, channel, total);
  }
}

// `sums` has room for BatchNormCudaParts(view).parts * view.channels.
template <class A, class Terms>
absl::Status SumChannels(const KernelContext& k, const ChannelView& view, const Terms& terms, ChannelSums* sums) {
  const BatchNormCudaParts split(view);
  if (split.by_block) {
    SNUG_RETURN_IF_ERROR(k.cuda()->Launch(ChannelsByBlockKernel<A, Terms>,
                                          {.blocks = view.channels, .blocks_y = split.parts, .threads = kCudaThreads},
                                          view, terms, sums));
  } else {
    cuda::LaunchShape shape = ShapeFor(view.channels);
    shape.blocks_y = split.parts;
    SNUG_RETURN_IF_ERROR(k.cuda()->Launch(ChannelsByThreadKernel<A, Terms>, shape, view, terms, sums));
  }
  return k.cuda()->Launch(TakeChannelsKernel<Terms>, ShapeFor(view.channels), view, terms, split.parts, sums);
}

}  // namespace snug::core
