// What the rounds of a loop in normal form have in common, rolled or not.
#pragma once

#include <cstdint>

#include "engine/base/random.h"

namespace snug::core {

// The number of the round that runs as the n-th.
inline int64_t RoundOf(int64_t n, int64_t rounds, bool backwards) { return backwards ? rounds - 1 - n : n; }

// The place of a round's slice along its axis.
inline int64_t PlaceOfRound(int64_t round, int64_t rounds, bool reverse) {
  return reverse ? rounds - 1 - round : round;
}

// What is added to the keys of random numbers in a round. Rounds of loops inside each other add up, so that it does not
// matter which of them are unrolled.
inline uint64_t RandomShift(uint64_t key, int64_t round) { return MixKeys(key, static_cast<uint64_t>(round)); }

}  // namespace snug::core
