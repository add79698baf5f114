// How a thread on CUDA reads and writes numbers that a Variable keeps in less than they are computed in: as bfloat16 or
// in 8 bits, rounded up or down at random.
#pragma once

#include <bit>
#include <cstdint>

#include "ops/coded_bytes.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/pack.h"
#include "ops/optim/rounding.h"
#include "ops/optim/update.h"

namespace snug::core {

// The numbers of kRoundedAtOnce elements of a Variable, from the element of that many times `at` on. Where they are 8
// bits wide, the threads of a warp have a block of numbers together, and all call these together, also those whose
// elements are behind the last.
struct RoundedPack {
  float numbers[kRoundedAtOnce];
};
static_assert(kRoundedAtOnce * 32 == kCodeBlock);

// How many packs a loop goes over.
__device__ inline int64_t RoundedPacks(int64_t n, bool coded) {
  const int64_t packs = (n + kRoundedAtOnce - 1) / kRoundedAtOnce;
  return coded ? (packs + 31) / 32 * 32 : packs;
}
__device__ inline int CountInPack(int64_t n, int64_t at) {
  const int64_t rest = n - at * kRoundedAtOnce;
  return static_cast<int>(rest < 0 ? 0 : rest < kRoundedAtOnce ? rest : kRoundedAtOnce);
}

template <bool kWhole>
__device__ inline RoundedPack LoadRounded(const KeptNumbers& kept, int64_t at, int count) {
  constexpr int kPack = kRoundedAtOnce;
  const int64_t first = at * kPack;
  RoundedPack pack;
  if (kept.as == KeptAs::kFloat32) {
    const auto from = LoadPack<kWhole, kPack>(kept.wide() + first, count);
#pragma unroll
    for (int j = 0; j < kPack; ++j) pack.numbers[j] = from.values[j];
  } else if (kept.as == KeptAs::kBFloat16) {
    const auto from = LoadPack<kWhole, kPack>(kept.halves() + first, count);
#pragma unroll
    for (int j = 0; j < kPack; ++j) pack.numbers[j] = static_cast<float>(from.values[j]);
  } else {
    const auto from = LoadPack<kWhole, kPack>(kept.codes() + first, count);
    const uint32_t scale = kept.scales()[first / kCodeBlock];
    const uint32_t exponent = scale >> 23;
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const float number = kept.as == KeptAs::kSigned8 ? DecodeNumber<true>(from.values[j], exponent)
                                                       : DecodeNumber<false>(from.values[j], exponent);
      pack.numbers[j] = scale == 0 ? 0.0F : scale == kNoScale ? std::bit_cast<float>(kNoScale) : number;
    }
  }
  return pack;
}

template <bool kWhole>
__device__ inline void StoreRounded(const KeptNumbers& kept, const RandomStream& random, int64_t at, int count,
                                    const RoundedPack& pack) {
  constexpr int kPack = kRoundedAtOnce;
  const int64_t first = at * kPack;
  if (kept.as == KeptAs::kFloat32) {
    CudaPack<float, kPack> to;
#pragma unroll
    for (int j = 0; j < kPack; ++j) to.values[j] = pack.numbers[j];
    return StorePack<kWhole>(to, kept.wide() + first, count);
  }
  const auto words = Philox{random.key}(random.stream, static_cast<uint64_t>(at));
  const auto drawn = [&](int j) { return words[static_cast<size_t>(j / 2)] >> (j % 2 * 16) & 0xffffU; };
  if (kept.as == KeptAs::kBFloat16) {
    CudaPack<BFloat16, kPack> to;
#pragma unroll
    for (int j = 0; j < kPack; ++j) to.values[j] = RoundStochastically(pack.numbers[j], drawn(j));
    return StorePack<kWhole>(to, kept.halves() + first, count);
  }
  uint32_t most = 0;
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(pack.numbers[j]) & 0x7fffffffU;
    if (j < count && magnitude > most) most = magnitude;
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const uint32_t other = __shfl_xor_sync(0xffffffffU, most, lanes);
    most = other > most ? other : most;
  }
  const uint32_t scale = ScaleOf(most);
  const uint32_t exponent = scale >> 23;
  CudaPack<uint8_t, kPack> to;
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    const bool meaningless = scale == 0 || scale == kNoScale;
    to.values[j] = meaningless ? uint8_t{0}
                   : kept.as == KeptAs::kSigned8
                       ? static_cast<uint8_t>(EncodeNumber<true>(pack.numbers[j], exponent, drawn(j)))
                       : static_cast<uint8_t>(EncodeNumber<false>(pack.numbers[j], exponent, drawn(j)));
  }
  StorePack<kWhole>(to, kept.codes() + first, count);
  if (at % 32 == 0) kept.scales()[first / kCodeBlock] = scale;
}

}  // namespace snug::core
