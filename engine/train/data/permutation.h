// A pseudo-random permutation of [0, n) that is computed and not stored. Element i needs no others, so an epoch's order
// takes neither memory nor time to make, and a position in it is just a number. A Feistel network whose round function
// is Philox permutes the next power of two; a result beyond n is sent through again until it is below n (cycle walking:
// Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). That takes less than two rounds on average.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine/base/random.h"

namespace snug::core {

class Permutation {
 public:
  Permutation(int64_t n, uint64_t key) : n_(static_cast<uint64_t>(n)), random_{key} {
    const int bits = std::max(2, static_cast<int>(std::bit_width(n_ - 1)));
    low_bits_ = (bits + 1) / 2;
    low_mask_ = (uint64_t{1} << low_bits_) - 1;
    high_mask_ = (uint64_t{1} << (bits - low_bits_)) - 1;
  }

  int64_t operator()(int64_t i) const {
    auto x = static_cast<uint64_t>(i);
    do x = Walk(x);
    while (x >= n_);
    return static_cast<int64_t>(x);
  }

 private:
  static constexpr uint64_t kRounds = 8;

  uint64_t Walk(uint64_t x) const {
    uint64_t low = x & low_mask_;
    uint64_t high = x >> low_bits_;
    for (uint64_t round = 0; round < kRounds; round += 2) {
      high ^= random_(round, low)[0] & high_mask_;
      low ^= random_(round + 1, high)[0] & low_mask_;
    }
    return high << low_bits_ | low;
  }

  uint64_t n_;
  int low_bits_;
  uint64_t low_mask_, high_mask_;
  Philox random_;
};

}  // namespace snug::core
