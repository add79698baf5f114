#include "engine/train/data/images/jitter.h"

#include <algorithm>
#include <array>
#include <cmath>

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

struct Hsv {
  float hue, saturation, value;  // the hue in turns, from 0 (red) to 1
};

Hsv HsvOf(float red, float green, float blue) {
  const float most = std::max({red, green, blue});
  const float range = most - std::min({red, green, blue});
  if (range == 0) return {0, 0, most};
  const float from_red = (most - red) / range, from_green = (most - green) / range, from_blue = (most - blue) / range;
  float sixths = 4 + from_green - from_red;
  if (most == red) {
    sixths = from_blue - from_green;
  } else if (most == green) {
    sixths = 2 + from_red - from_blue;
  }
  return {std::fmod(sixths / 6 + 1, 1.0F), range / most, most};
}

std::array<float, 3> RgbOf(const Hsv& colour) {
  const float v = colour.value, s = colour.saturation;
  const float sixth = std::floor(colour.hue * 6);
  const float f = colour.hue * 6 - sixth;
  const float p = std::clamp(v * (1 - s), 0.0F, 1.0F);
  const float q = std::clamp(v * (1 - s * f), 0.0F, 1.0F);
  const float t = std::clamp(v * (1 - s * (1 - f)), 0.0F, 1.0F);
  switch (static_cast<int>(sixth) % 6) {
    case 0:
      return {v, t, p};
    case 1:
      return {q, v, p};
    case 2:
      return {p, v, t};
    case 3:
      return {p, q, v};
    case 4:
      return {t, p, v};
    default:
      return {v, p, q};
  }
}

}  // namespace

void TurnHue(float* planes, int64_t pixels, float turn) {
  float *const red = planes, *const green = planes + pixels, *const blue = planes + 2 * pixels;
  for (int64_t i = 0; i < pixels; ++i) {
    Hsv colour = HsvOf(red[i], green[i], blue[i]);
    colour.hue = std::fmod(colour.hue + turn + 1, 1.0F);
    const std::array<float, 3> turned = RgbOf(colour);
    red[i] = turned[0];
    green[i] = turned[1];
    blue[i] = turned[2];
  }
}

void JitterColours(float* planes, int64_t channels, int64_t pixels, const ColourJitter& jitter, const Philox& random,
                   uint64_t epoch, uint64_t sample) {
  const auto words = random(epoch, sample);
  const auto factor = [&](uint32_t word) { return 1 + jitter.amount * (2 * ToUniform(word) - 1); };

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
  if (jitter.hue > 0) TurnHue(planes, pixels, jitter.hue * (2 * ToUniform(words[3]) - 1));
}

}  // namespace snug::core
