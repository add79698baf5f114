// The state that random ops read, an int64 pair {seed, step}, and their random numbers.
//
// A node's numbers are a pure function of (seed, its random id, step, element): forward and backward draw the same
// ones, whatever the threads, the order and the passes. Element i is word i % 4 of counter i / 4.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "engine/base/random.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"

namespace snug::core {

absl::Status CheckRandomState(const InferContext& c, int input);

struct RandomStream {
  uint64_t key;
  uint64_t stream;

  RandomStream(const KernelContext& k, int input) : RandomStream(k.input<int64_t>(input), k.random_id()) {}
  SNUG_HOST_DEVICE RandomStream(const int64_t* state, uint64_t random_id)
      : key(MixKeys(static_cast<uint64_t>(state[0]), random_id)), stream(static_cast<uint64_t>(state[1])) {}

  SNUG_HOST_DEVICE uint32_t Word(uint64_t element) const { return Philox{key}(stream, element / 4)[element % 4]; }
};

// Draws the words of elements [4 counter, 4 (counter + n)): the same numbers as Philox, computed side by side in
// vectors. n has to be a multiple of kCountersAtOnce.
inline constexpr int64_t kCountersAtOnce = 8;
void DrawWords(RandomStream random, uint64_t counter, int64_t n, uint32_t* words);

// Turns a word into a number in [0, 2^24), evenly spread: it is below rate * 2^24 in the fraction `rate` of cases.
inline constexpr double kUniformRange = 0x1p24;
SNUG_HOST_DEVICE inline int32_t ToUniformInt(uint32_t word) { return static_cast<int32_t>(word >> 8); }

}  // namespace snug::core
