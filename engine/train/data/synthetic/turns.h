// Sine and cosine of an angle in turns, with arithmetic that is the same on every machine; libraries differ in the last
// bit. It is Bhaskara's rational formula (629), within 0.0017 of the sine.
#pragma once

#include <cmath>

namespace snug::core {

inline float SineOfTurns(float turns) {
  const float t = 2 * (turns - std::floor(turns));  // half turns, in [0, 2)
  const float u = t < 1 ? t : t - 1;
  const float product = u * (1 - u);
  const float sine = 16 * product / (5 - 4 * product);
  return t < 1 ? sine : -sine;
}

inline float CosineOfTurns(float turns) { return SineOfTurns(turns + 0.25F); }

}  // namespace snug::core
