#include "engine/train/data/images/crop.h"

#include <algorithm>
#include <cmath>

namespace snug::core {
namespace {

constexpr int kDraws = 10;
constexpr double kLongest = 4.0 / 3;     // how far a drawn box may be from the sample's aspect
constexpr double kMiddle = 224.0 / 256;  // the usual share of the shorter side

ImageBox Largest(int64_t width, int64_t height, double aspect, double share) {
  const auto w = static_cast<double>(width), h = static_cast<double>(height);
  ImageBox box;
  box.width = std::min(w, h * aspect) * share;
  box.height = box.width / aspect;
  box.left = (w - box.width) / 2;
  box.top = (h - box.height) / 2;
  return box;
}

}  // namespace

ImageBox RandomBox(int64_t width, int64_t height, double least_area, double aspect, const Philox& random,
                   uint64_t epoch, uint64_t sample) {
  const Philox of_sample = {MixKeys(random.key, sample)};
  const auto area = static_cast<double>(width) * static_cast<double>(height);
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    const auto words = of_sample(epoch, draw);
    const double share = least_area + (1 - least_area) * ToUniform(words[0]);
    const double ratio = aspect * std::exp(std::log(kLongest) * (2 * double{ToUniform(words[1])} - 1));
    const double w = std::round(std::sqrt(area * share * ratio));
    const double h = std::round(std::sqrt(area * share / ratio));
    if (w < 1 || h < 1 || w > static_cast<double>(width) || h > static_cast<double>(height)) continue;
    const double left = std::floor(ToUniform(words[2]) * (static_cast<double>(width) - w + 1));
    const double top = std::floor(ToUniform(words[3]) * (static_cast<double>(height) - h + 1));
    return {.left = left, .top = top, .width = w, .height = h};
  }
  return Largest(width, height, aspect, 1);
}

ImageBox MiddleBox(int64_t width, int64_t height, double aspect) { return Largest(width, height, aspect, kMiddle); }

}  // namespace snug::core
