// The state that random ops read, an int64 pair {seed, step}, and their random numbers.
//
// A node's numbers are a pure function of (seed, its random id, step, element): forward and backward draw the same
// ones, whatever the threads, the order and the passes. Element i is word i % 4 of counter i / 4.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <utility>

#include "engine/base/random.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/lib/isa.h"

namespace snug {

absl::Status CheckRandomState(const InferContext& c, int input);

struct RandomStream {
  uint64_t key;
  uint64_t stream;

  RandomStream(const KernelContext& k, int input)
      : key(MixKeys(static_cast<uint64_t>(k.input<int64_t>(input)[0]), k.random_id())),
        stream(static_cast<uint64_t>(k.input<int64_t>(input)[1])) {}

  uint32_t Word(uint64_t element) const { return Philox{key}(stream, element / 4)[element % 4]; }
};

// The words of elements [4 counter, 4 (counter + n)): the same numbers as Philox, computed side by side in vectors.
SNUG_INLINE void DrawWords(RandomStream random, uint64_t counter, int64_t n, uint32_t* words) {
  const auto key0 = static_cast<uint32_t>(random.key);
  const auto key1 = static_cast<uint32_t>(random.key >> 32);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t at = counter + static_cast<uint64_t>(i);
    uint32_t c0 = static_cast<uint32_t>(at);
    uint32_t c1 = static_cast<uint32_t>(at >> 32);
    uint32_t c2 = static_cast<uint32_t>(random.stream);
    uint32_t c3 = static_cast<uint32_t>(random.stream >> 32);
    const auto round = [&](uint32_t r) SNUG_LAMBDA {
      const uint64_t p0 = uint64_t{0xD2511F53U} * c0;
      const uint64_t p1 = uint64_t{0xCD9E8D57U} * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ (key0 + r * 0x9E3779B9U);
      c1 = static_cast<uint32_t>(p1);
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ (key1 + r * 0xBB67AE85U);
      c3 = static_cast<uint32_t>(p0);
    };
    // Unrolled by hand: the compiler vectorises the outer loop only if there is no inner one.
    [&]<uint32_t... R>(std::integer_sequence<uint32_t, R...>) SNUG_LAMBDA { (round(R), ...); }
    (std::make_integer_sequence<uint32_t, 10>());
    words[4 * i] = c0;
    words[4 * i + 1] = c1;
    words[4 * i + 2] = c2;
    words[4 * i + 3] = c3;
  }
}

// A word as a number in [0, 2^24), evenly spread: below rate * 2^24 in the fraction `rate` of cases.
inline constexpr double kUniformRange = 0x1p24;
SNUG_INLINE int32_t ToUniformInt(uint32_t word) { return static_cast<int32_t>(word >> 8); }

}  // namespace snug
