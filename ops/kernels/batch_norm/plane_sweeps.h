// The sweeps of batch normalisation's fast kernels where channels lie apart (plain layout): one channel is done at a
// time, first its sums, in lanes over its planes, then its elements.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kernels/batch_norm/elements.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"

namespace snug::core::batch_norm {

// Adds up what sums(i, numbers) gives for one channel's planes.
template <class Sums>
SNUG_INLINE void SumLanes(const ChannelView& view, int64_t channel, Numbers numbers, Sums sums, double* a, double* b) {
  *a = *b = 0;
  float la[kLanes], lb[kLanes];
  int64_t pending = 0;  // how many elements were added to the lanes
  for (int j = 0; j < kLanes; ++j) la[j] = lb[j] = 0;
  const auto flush = [&]() SNUG_LAMBDA {
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) {
        la[j] += la[j + width];
        lb[j] += lb[j + width];
      }
    }
    *a += static_cast<double>(la[0]);
    *b += static_cast<double>(lb[0]);
    for (int j = 0; j < kLanes; ++j) la[j] = lb[j] = 0;
    pending = 0;
  };
  for (int64_t n = 0; n < view.outer; ++n) {
    const int64_t plane = (n * view.channels + channel) * view.inner;
    for (int64_t begin = 0; begin < view.inner; begin += kLaneBlock) {
      const int64_t end = plane + std::min(view.inner, begin + kLaneBlock);
      int64_t i = plane + begin;
      for (; i + kLanes <= end; i += kLanes) {
        SNUG_INDEPENDENT
        for (int j = 0; j < kLanes; ++j) {
          Pair<float> p;
          sums(i + j, numbers, p);
          la[j] += p.a;
          lb[j] += p.b;
        }
      }
      for (int j = 0; i + j < end; ++j) {
        Pair<float> p;
        sums(i + j, numbers, p);
        la[j] += p.a;
        lb[j] += p.b;
      }
      pending += std::min(view.inner - begin, kLaneBlock);
      if (pending >= kLaneBlock) flush();
    }
  }
  flush();
}

template <class Sums>
void SumPlanes(const ChannelView& view, int64_t channel, const Numbers& numbers, Sums sums, double* a, double* b) {
  WithIsa([&, channel, numbers]() SNUG_LAMBDA { SumLanes(view, channel, numbers, sums, a, b); });
}

template <class Element>
void ForEachElementOfPlanes(const ChannelView& view, int64_t channel, const Numbers& numbers, Element element) {
  WithIsa([=]() SNUG_LAMBDA {
    for (int64_t n = 0; n < view.outer; ++n) {
      const int64_t plane = (n * view.channels + channel) * view.inner;
      SNUG_INDEPENDENT
      for (int64_t i = plane; i < plane + view.inner; ++i) element(i, numbers);
    }
  });
}

// Returns the mean of a few elements of a channel, evenly spread.
template <class T>
float Shift(const ChannelView& view, const T* x, int64_t channel) {
  const int64_t n = std::min(kShiftSamples, view.count());
  float sum = 0;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t at = SampleOf(view.count(), k);
    sum += static_cast<float>(x[(at / view.inner * view.channels + channel) * view.inner + at % view.inner]);
  }
  return sum / static_cast<float>(n);
}

}  // namespace snug::core::batch_norm
