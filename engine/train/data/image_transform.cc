#include "engine/train/data/image_transform.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>

#include "engine/base/status.h"

namespace snug::core {
namespace {

absl::StatusOr<std::vector<float>> PerChannel(absl::string_view what, const std::vector<float>& values, float none,
                                              int64_t channels) {
  const auto n = static_cast<size_t>(channels);
  if (values.empty()) return std::vector<float>(n, none);
  if (values.size() == 1) return std::vector<float>(n, values[0]);
  if (values.size() == n) return values;
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": expected one number, or one for each of ", channels, " channels, found ", values.size()));
}

}  // namespace

absl::StatusOr<ImageTransform> ImageTransform::Create(absl::Span<const DataField> fields, const ImageOptions& options,
                                                      uint64_t key) {
  const auto field =
      std::find_if(fields.begin(), fields.end(), [&](const DataField& f) { return f.name == options.field; });
  if (field == fields.end()) {
    return absl::NotFoundError(
        absl::StrCat("image options: the data have no field \"", options.field, "\" to crop, flip or normalise"));
  }
  const ValueType& type = field->type;
  if (type.dtype != DType::kFloat32) {
    return absl::InvalidArgumentError(
        absl::StrCat("image options: field \"", field->name, "\": expected float32, found ", type.ToString()));
  }
  const bool moved = options.crop_padding != 0 || options.flip;
  if (moved && type.shape.rank() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("image options: field \"", field->name,
                     "\": only [channels, height, width] can be cropped and flipped, found ", type.ToString()));
  }
  if (options.crop_padding < 0) {
    return absl::InvalidArgumentError(absl::StrCat("crop padding: expected at least 0, found ", options.crop_padding));
  }
  ImageTransform t;
  t.field_ = static_cast<size_t>(field - fields.begin());
  if (type.shape.rank() == 3) {
    t.channels_ = type.shape[0];
    t.height_ = type.shape[1];
    t.width_ = type.shape[2];
  } else {
    t.width_ = type.num_elements();
  }
  t.crop_padding_ = options.crop_padding;
  t.flip_ = options.flip;
  if (!options.mean.empty() || !options.deviation.empty()) {
    SNUG_ASSIGN_OR_RETURN(t.mean_, PerChannel("mean", options.mean, 0, t.channels_));
    SNUG_ASSIGN_OR_RETURN(t.deviation_, PerChannel("deviation", options.deviation, 1, t.channels_));
  }
  for (const float deviation : t.deviation_) {
    if (!(deviation > 0)) {
      return absl::InvalidArgumentError(absl::StrCat("deviation: expected more than 0, found ", deviation));
    }
  }
  t.random_ = {key};
  return t;
}

void ImageTransform::Apply(int64_t epoch, int64_t sample, float* image, float* scratch) const {
  const auto words = random_(static_cast<uint64_t>(epoch), static_cast<uint64_t>(sample));
  const auto shift = [&](uint32_t word) {
    const auto choices = static_cast<uint64_t>(2 * crop_padding_ + 1);
    return static_cast<int64_t>(uint64_t{word} * choices >> 32) - crop_padding_;
  };
  const int64_t dy = shift(words[0]);
  const int64_t dx = shift(words[1]);
  const bool mirrored = flip_ && (words[2] >> 31) != 0;
  if (dy != 0 || dx != 0 || mirrored) {
    std::memcpy(scratch, image, static_cast<size_t>(scratch_floats()) * sizeof(float));
    for (int64_t c = 0; c < channels_; ++c) {
      for (int64_t y = 0; y < height_; ++y) {
        float* row = image + (c * height_ + y) * width_;
        const int64_t from_y = y + dy;
        if (from_y < 0 || from_y >= height_) {
          std::fill_n(row, width_, 0.0F);
          continue;
        }
        const float* from = scratch + (c * height_ + from_y) * width_;
        for (int64_t x = 0; x < width_; ++x) {
          const int64_t from_x = (mirrored ? width_ - 1 - x : x) + dx;
          row[x] = from_x < 0 || from_x >= width_ ? 0.0F : from[from_x];
        }
      }
    }
  }
  if (mean_.empty()) return;
  for (int64_t c = 0; c < channels_; ++c) {
    const float mean = mean_[static_cast<size_t>(c)];
    const float deviation = deviation_[static_cast<size_t>(c)];
    float* plane = image + c * height_ * width_;
    for (int64_t i = 0; i < height_ * width_; ++i) plane[i] = (plane[i] - mean) / deviation;
  }
}

}  // namespace snug::core
