// Whether what a norm normalised follows from what it gave: x' = (y - bias) / weight. Of y's digits, log2(bias /
// weight) are lost.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <cmath>
#include <cstdint>

#include "ops/infer_context.h"

namespace snug::core {

inline constexpr int kLostBits = 10;                  // of the 24 that float32 has
inline constexpr double kSmallestInvertible = 1e-15;  // its square is no subnormal number

// Of what a norm gave, bfloat16 rounds to 8 bits, of which none may be lost.
inline absl::Status CheckDigits(const InferContext& c, int port) {
  if (c.input(port).dtype != DType::kBFloat16) return absl::OkStatus();
  return c.InputError(port, "expected float32 or float64, whose digits suffice to find again what was normalised");
}

// Says which weight loses more than kLostBits. Both may be null: 1, and 0. NaNs pass: they show in the loss.
template <class S>
absl::Status CheckInvertible(const S* weight, const S* bias, int64_t width) {
  constexpr const char* kLeaveOut = "; leave out gradients-from-outputs for this network";
  if (weight == nullptr) return absl::OkStatus();
  for (int64_t i = 0; i < width; ++i) {
    const double size = std::fabs(static_cast<double>(weight[i]));
    const double added = bias == nullptr ? 0 : std::fabs(static_cast<double>(bias[i]));
    if (size < kSmallestInvertible) {
      return absl::FailedPreconditionError(absl::StrCat("weight[", i, "] is ", weight[i],
                                                        ", so that what was normalised does not follow from the output",
                                                        kLeaveOut));
    }
    if (added > size * (1 << kLostBits)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "weight[", i, "] is ", weight[i], " beside bias[", i, "] ", bias[i], ": expected at least 1/", 1 << kLostBits,
          " of it, so that the output has enough digits of what was normalised", kLeaveOut));
    }
  }
  return absl::OkStatus();
}

}  // namespace snug::core
