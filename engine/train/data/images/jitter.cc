#include "engine/train/data/images/jitter.h"

#include <algorithm>

namespace snug::core {
namespace {

// ITU-R 601: how bright red, green and blue look
constexpr float kWeights[] = {0.299F, 0.587F, 0.114F};

float Grey(const float* planes, int64_t channels, int64_t pixels, int64_t i) {
  if (channels != 3) return planes[i];
  return kWeights[0] * planes[i] + kWeights[1] * planes[pixels + i] + kWeights[2] * planes[2 * pixels + i];
}

float Blend(float value, float other, float factor) {
  return std::clamp(factor * value + (1 - factor) * other, 0.0F, 1.0F);
}

}  // namespace

void JitterColours(float* planes, int64_t channels, int64_t pixels, float amount, const Philox& random, uint64_t epoch,
                   uint64_t sample) {
  const auto words = random(epoch, sample);
  const auto factor = [&](uint32_t word) { return 1 + amount * (2 * ToUniform(word) - 1); };

  const float brightness = factor(words[0]);
  for (int64_t i = 0; i < channels * pixels; ++i) planes[i] = Blend(planes[i], 0, brightness);

  const float contrast = factor(words[1]);
  double sum = 0;
  for (int64_t i = 0; i < pixels; ++i) sum += double{Grey(planes, channels, pixels, i)};
  const auto mean = static_cast<float>(sum / static_cast<double>(pixels));
  for (int64_t i = 0; i < channels * pixels; ++i) planes[i] = Blend(planes[i], mean, contrast);

  if (channels != 3) return;
  const float saturation = factor(words[2]);
  for (int64_t i = 0; i < pixels; ++i) {
    const float grey = Grey(planes, channels, pixels, i);
    for (int64_t c = 0; c < channels; ++c) {
      float& value = planes[c * pixels + i];
      value = Blend(value, grey, saturation);
    }
  }
}

}  // namespace snug::core
