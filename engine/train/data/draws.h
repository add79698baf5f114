// Draws random numbers one after the other from one stream of Philox, for samples that are drawn by a procedure. It
// uses only whole numbers and exact float arithmetic, so that every machine draws the same.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/random.h"

namespace snug::core {

class Draws {
 public:
  Draws(uint64_t key, uint64_t stream) : random_{key}, stream_(stream) {}

  uint32_t Word() {
    if (used_ == 4) {
      words_ = random_(stream_, counter_++);
      used_ = 0;
    }
    return words_[used_++];
  }
  uint64_t TwoWords() {
    const uint64_t high = Word();
    return high << 32 | Word();
  }
  // Returns a whole number in [0, n).
  int Below(int n) { return static_cast<int>(uint64_t{Word()} * static_cast<uint64_t>(n) >> 32); }
  bool Chance(float probability) { return ToUniform(Word()) < probability; }
  float Uniform(float low, float high) { return low + (high - low) * ToUniform(Word()); }
  // Returns a nearly normal number with mean 0 and deviation 1: the sum of four bytes.
  float Noise() {
    const uint32_t w = Word();
    const auto sum = static_cast<int>((w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24));
    return static_cast<float>(sum - 510) * (1.0F / 147.8F);
  }

 private:
  Philox random_;
  uint64_t stream_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> words_ = {};
  size_t used_ = 4;
};

}  // namespace snug::core
