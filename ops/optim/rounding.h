// Stochastic rounding of what updates keep in bfloat16 or in 8 bits (ops/kernels/update/narrow_numbers.h): a number
// between two neighbours becomes the upper one with the probability that its distance from the lower one says, so that
// what is rounded is right on average. Changes that are too small to reach the next number are then not lost over many
// steps, and nothing wider has to be kept.
//
// The bits are counter-based, as those of dropout are: a pure function of the seed, the update's random id, the step,
// the Variable (the parameter is 0, its slots follow) and the element. Element i takes half i % 2 of word i / 2, the
// lower half first.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "engine/base/host_device.h"
#include "engine/base/parallel.h"
#include "ops/kernels/update/narrow_numbers.h"
#include "ops/kit/isa.h"
#include "ops/kit/random_state.h"

namespace snug::core {

// The id of an update's roundings: an update's arguments on CUDA have room for no more (updates.cu).
SNUG_HOST_DEVICE inline uint32_t RoundingId(uint64_t random_id) {
  return static_cast<uint32_t>(random_id ^ (random_id >> 32));
}
SNUG_HOST_DEVICE inline RandomStream RoundingStream(const int64_t* state, uint32_t rounding_id, int variable) {
  return {state, MixKeys(rounding_id, static_cast<uint64_t>(variable))};
}

// So many elements one counter of the random numbers serves.
inline constexpr int64_t kRoundedAtOnce = 8;

// Calls fn(element, numbers...) for every element in [0, n). The numbers are what the Variables `kept` hold for it, as
// float, which fn may change; what is kept narrower is rounded. Nothing is written unless it `writes`.
template <size_t kCount, class Fn>
void UpdateRounded(int threads, int64_t n, const int64_t* state, uint32_t rounding_id,
                   const std::array<KeptNumbers, kCount>& kept, Fn fn, bool writes = true) {
  constexpr int64_t kChunk = 1 << 13;
  constexpr int64_t kBlock = 1 << 9;
  static_assert(kChunk % kBlock == 0 && kBlock % (kRoundedAtOnce * kCountersAtOnce) == 0 && kBlock % kCodeBlock == 0);
  static_assert(std::endian::native == std::endian::little, "the lower half of a word lies first");
  ParallelFor(threads, n, kChunk, [=](int64_t begin, int64_t end) {
    float numbers[kCount][kBlock];
    uint32_t words[kBlock / 2];
    uint16_t halves[kBlock];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t count = std::min(kBlock, end - i);
      for (size_t v = 0; v < kCount; ++v) LoadNumbers(kept[v], i, count, static_cast<float*>(numbers[v]));
      WithIsa([&, i, count]() SNUG_LAMBDA {
        SNUG_INDEPENDENT
        for (int64_t j = 0; j < count; ++j) {
          if constexpr (kCount == 1) fn(i + j, numbers[0][j]);
          if constexpr (kCount == 2) fn(i + j, numbers[0][j], numbers[1][j]);
          if constexpr (kCount == 3) fn(i + j, numbers[0][j], numbers[1][j], numbers[2][j]);
        }
      });
      for (size_t v = 0; v < kCount && writes; ++v) {
        if (kept[v].as != KeptAs::kFloat32) {
          DrawWords(RoundingStream(state, rounding_id, static_cast<int>(v)), static_cast<uint64_t>(i / kRoundedAtOnce),
                    kBlock / kRoundedAtOnce, static_cast<uint32_t*>(words));
          std::memcpy(static_cast<uint16_t*>(halves), static_cast<const uint32_t*>(words), sizeof(words));
        }
        StoreNumbers(kept[v], i, count, static_cast<const float*>(numbers[v]), static_cast<const uint16_t*>(halves));
      }
    }
  });
}

}  // namespace snug::core
