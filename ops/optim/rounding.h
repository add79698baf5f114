// Stochastic rounding to bfloat16: a number between two neighbours becomes the upper one with the probability that its
// distance from the lower one says, so that what is rounded is right on average. Changes that are too small to reach
// the next bfloat16 are then not lost over many steps, and nothing wider has to be kept.
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

#include "engine/base/bfloat16.h"
#include "engine/base/host_device.h"
#include "engine/base/parallel.h"
#include "ops/kit/isa.h"
#include "ops/kit/random_state.h"

namespace snug::core {

// `bits` is evenly spread below 2^16. What is a bfloat16 already stays as it is, so do infinities, and NaN stays NaN.
SNUG_HOST_DEVICE inline BFloat16 RoundStochastically(float value, uint32_t bits) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  const bool nan = (word & 0x7fffffffU) > 0x7f800000U;
  const uint32_t rounded = nan ? word | 0x400000U : word + bits;
  BFloat16 result;
  result.bits = static_cast<uint16_t>(rounded >> 16);
  return result;
}

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
// float, which fn may change; the results are rounded.
template <size_t kCount, class Fn>
void UpdateRounded(int threads, int64_t n, const int64_t* state, uint32_t rounding_id,
                   const std::array<BFloat16*, kCount>& kept, Fn fn) {
  constexpr int64_t kChunk = 1 << 13;
  constexpr int64_t kBlock = 1 << 9;
  static_assert(kChunk % kBlock == 0 && kBlock % (kRoundedAtOnce * kCountersAtOnce) == 0);
  static_assert(std::endian::native == std::endian::little, "the lower half of a word lies first");
  ParallelFor(threads, n, kChunk, [=](int64_t begin, int64_t end) {
    float numbers[kCount][kBlock];
    uint32_t words[kBlock / 2];
    uint16_t halves[kBlock];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t count = std::min(kBlock, end - i);
      WithIsa([&, i, count]() SNUG_LAMBDA {
        for (size_t v = 0; v < kCount; ++v) {
          for (int64_t j = 0; j < count; ++j) numbers[v][j] = static_cast<float>(kept[v][i + j]);
        }
        SNUG_INDEPENDENT
        for (int64_t j = 0; j < count; ++j) {
          if constexpr (kCount == 1) fn(i + j, numbers[0][j]);
          if constexpr (kCount == 2) fn(i + j, numbers[0][j], numbers[1][j]);
          if constexpr (kCount == 3) fn(i + j, numbers[0][j], numbers[1][j], numbers[2][j]);
        }
      });
      for (size_t v = 0; v < kCount; ++v) {
        DrawWords(RoundingStream(state, rounding_id, static_cast<int>(v)), static_cast<uint64_t>(i / kRoundedAtOnce),
                  kBlock / kRoundedAtOnce, static_cast<uint32_t*>(words));
        std::memcpy(static_cast<uint16_t*>(halves), static_cast<const uint32_t*>(words), sizeof(words));
        WithIsa([&, i, count, v]() SNUG_LAMBDA {
          for (int64_t j = 0; j < count; ++j) kept[v][i + j] = RoundStochastically(numbers[v][j], halves[j]);
        });
      }
    }
  });
}

}  // namespace snug::core
