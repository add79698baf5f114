// Changes an image between the Dataset and the batch: a random crop of the padded image, a random mirror image, then (x
// - mean) / deviation of each channel. What is random depends only on (key, epoch, sample).
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/random.h"
#include "engine/train/data/dataset.h"

namespace snug::core {

struct ImageOptions {
  std::string field = "image";         // a float32 field: [channels, height, width], or any shape if it is only
                                       // normalised
  int64_t crop_padding = 0;            // pads so many zeros on each side, then crops to the image's size
  bool flip = false;                   // swaps left and right in half of all cases
  std::vector<float> mean, deviation;  // for each channel, or one for all; empty: 0 and 1

  bool identity() const { return crop_padding == 0 && !flip && mean.empty() && deviation.empty(); }
};

class ImageTransform {
 public:
  // `key` keeps these random numbers apart from all others.
  static absl::StatusOr<ImageTransform> Create(absl::Span<const DataField> fields, const ImageOptions& options,
                                               uint64_t key);

  size_t field() const { return field_; }                                  // which field it changes
  int64_t scratch_floats() const { return channels_ * height_ * width_; }  // how much scratch space Apply() needs
  void Apply(int64_t epoch, int64_t sample, float* image, float* scratch) const;

 private:
  ImageTransform() = default;

  size_t field_ = 0;
  int64_t channels_ = 1, height_ = 1, width_ = 1;
  int64_t crop_padding_ = 0;
  bool flip_ = false;
  std::vector<float> mean_, deviation_;  // empty, or one for each channel
  Philox random_;
};

}  // namespace snug::core
