// The makers of the synthetic tasks, for the table in synthetic.cc, and what they share.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>

#include "engine/base/hash.h"
#include "engine/base/random.h"
#include "engine/train/data/synthetic.h"

namespace snug::core {

std::unique_ptr<Dataset> MakeDigits(const SyntheticOptions& options);
std::unique_ptr<Dataset> MakeTextures(const SyntheticOptions& options);
std::unique_ptr<Dataset> MakeSpiral(const SyntheticOptions& options);
std::unique_ptr<Dataset> MakeCopy(const SyntheticOptions& options);

// Draws random numbers one after the other from one stream of Philox, for samples that are drawn by a procedure. It
// uses only whole numbers and exact float arithmetic, so that every machine draws the same.
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

// A Dataset whose samples are drawn. Each index has two streams of numbers: one for training, one for what is held
// back.
class DrawnDataset : public Dataset {
 protected:
  DrawnDataset(absl::string_view task, std::vector<DataField> fields, const SyntheticOptions& options)
      : Dataset(std::move(fields), options.samples),
        key_(MixKeys(options.seed, HashName(task))),
        first_stream_(options.held_back ? uint64_t{1} << 63 : 0) {}

  Draws DrawsOf(int64_t sample) const { return {key_, first_stream_ + static_cast<uint64_t>(sample)}; }

 private:
  uint64_t key_, first_stream_;
};

// Rounds to 256 grey levels, as if the image had been in a file.
inline float ToPixel(float value) {
  const float level = value <= 0 ? 0.0F : value >= 1 ? 255.0F : std::floor(value * 255 + 0.5F);
  return level / 255;
}

// Sine and cosine of an angle in turns, with arithmetic that is the same on every machine; libraries differ in the last
// bit. It is Bhaskara's rational formula (629), within 0.0017 of the sine.
inline float SineOfTurns(float turns) {
  const float t = 2 * (turns - std::floor(turns));  // half turns, in [0, 2)
  const float u = t < 1 ? t : t - 1;
  const float product = u * (1 - u);
  const float sine = 16 * product / (5 - 4 * product);
  return t < 1 ? sine : -sine;
}

inline float CosineOfTurns(float turns) { return SineOfTurns(turns + 0.25F); }

}  // namespace snug::core
