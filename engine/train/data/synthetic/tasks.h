// The makers of the synthetic tasks, for the table in synthetic.cc, and what they share.
#pragma once

#include <cmath>
#include <memory>

#include "engine/base/hash.h"
#include "engine/train/data/draws.h"
#include "engine/train/data/synthetic.h"

namespace snug::core {

std::unique_ptr<Dataset> MakeDigits(const SyntheticOptions& options);
std::unique_ptr<Dataset> MakeTextures(const SyntheticOptions& options);
std::unique_ptr<Dataset> MakeSpiral(const SyntheticOptions& options);
std::unique_ptr<Dataset> MakeCopy(const SyntheticOptions& options);

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

}  // namespace snug::core
