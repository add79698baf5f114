#include "engine/train/data/images/resize.h"

#include <algorithm>
#include <cmath>

namespace snug::core {
namespace {

// The pixels along one axis that make up one pixel of the sample, and their weights.
struct Taps {
  int64_t first = 0;
  std::vector<float> weights;
};

// `from` and `length` are the box's, along an axis that has `pixels`.
std::vector<Taps> TapsOf(double from, double length, int64_t pixels, int64_t samples) {
  const double step = length / static_cast<double>(samples);
  const double reach = std::max(step, 1.0);
  const auto begin = std::clamp<int64_t>(static_cast<int64_t>(std::floor(from)), 0, pixels - 1);
  const auto end = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(from + length)), begin + 1, pixels);
  std::vector<Taps> taps(static_cast<size_t>(samples));
  std::vector<double> weights;
  for (int64_t i = 0; i < samples; ++i) {
    const double middle = from + (static_cast<double>(i) + 0.5) * step;
    const auto first = std::clamp<int64_t>(static_cast<int64_t>(middle - reach + 0.5), begin, end - 1);
    const auto last = std::clamp<int64_t>(static_cast<int64_t>(middle + reach + 0.5), first + 1, end);
    double sum = 0;
    weights.clear();
    for (int64_t p = first; p < last; ++p) {
      weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(p) + 0.5 - middle) / reach));
      sum += weights.back();
    }
    Taps& tap = taps[static_cast<size_t>(i)];
    tap.first = first;
    for (const double weight : weights) {
      // A box thinner than a pixel may lie between the middles of two.
      tap.weights.push_back(static_cast<float>(sum > 0 ? weight / sum : 1.0 / static_cast<double>(weights.size())));
    }
  }
  return taps;
}

// One row of the image, drawn to the sample's width, one channel after the other.
void DrawRow(const uint8_t* pixels, int64_t channels, const std::vector<Taps>& taps, float* row) {
  const size_t width = taps.size();
  for (size_t x = 0; x < width; ++x) {
    const Taps& tap = taps[x];
    const uint8_t* at = pixels + tap.first * channels;
    if (channels == 3) {
      float red = 0, green = 0, blue = 0;
      for (const float weight : tap.weights) {
        red += weight * static_cast<float>(at[0]);
        green += weight * static_cast<float>(at[1]);
        blue += weight * static_cast<float>(at[2]);
        at += 3;
      }
      row[x] = red;
      row[width + x] = green;
      row[2 * width + x] = blue;
    } else {
      float grey = 0;
      for (const float weight : tap.weights) grey += weight * static_cast<float>(*at++);
      row[x] = grey;
    }
  }
}

}  // namespace

void ResizeBox(const PixelView& image, const ImageBox& box, int64_t height, int64_t width, float* planes,
               std::vector<float>* scratch) {
  const std::vector<Taps> across = TapsOf(box.left, box.width, image.width, width);
  const std::vector<Taps> down = TapsOf(box.top, box.height, image.height, height);
  const int64_t first = down.front().first;
  const auto rows = down.back().first + static_cast<int64_t>(down.back().weights.size()) - first;
  const int64_t row_floats = image.channels * width;
  scratch->resize(static_cast<size_t>(rows * row_floats));
  for (int64_t y = 0; y < rows; ++y) {
    DrawRow(image.row(first + y), image.channels, across, scratch->data() + y * row_floats);
  }
  for (int64_t c = 0; c < image.channels; ++c) {
    for (int64_t y = 0; y < height; ++y) {
      const Taps& tap = down[static_cast<size_t>(y)];
      float* out = planes + (c * height + y) * width;
      std::fill_n(out, width, 0.0F);
      for (size_t k = 0; k < tap.weights.size(); ++k) {
        const float weight = tap.weights[k] / 255;
        const float* row = scratch->data() + (tap.first - first + static_cast<int64_t>(k)) * row_floats + c * width;
        for (int64_t x = 0; x < width; ++x) out[x] += weight * row[x];
      }
    }
  }
}

}  // namespace snug::core
