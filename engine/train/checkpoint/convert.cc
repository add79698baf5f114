#include "engine/train/checkpoint/convert.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/base/bfloat16.h"
#include "engine/base/status.h"

namespace snug::core::checkpoint {
namespace {

struct Half {
  uint16_t bits;
  explicit operator double() const { return static_cast<double>(HalfToFloat(bits)); }
};

// The bytes in a file need not be aligned, so each element is copied out.
template <class To, class From>
void ConvertFrom(absl::Span<const std::byte> in, To* out) {
  for (size_t i = 0; i < in.size() / sizeof(From); ++i) {
    From element;
    std::memcpy(&element, in.data() + i * sizeof(From), sizeof(From));
    out[i] = static_cast<To>(static_cast<double>(element));
  }
}

template <class To>
void ConvertTo(ElementType from, absl::Span<const std::byte> in, To* out) {
  switch (from) {
    case ElementType::kF64:
      return ConvertFrom<To, double>(in, out);
    case ElementType::kF32:
      return ConvertFrom<To, float>(in, out);
    case ElementType::kBF16:
      return ConvertFrom<To, BFloat16>(in, out);
    case ElementType::kF16:
      return ConvertFrom<To, Half>(in, out);
    default:
      SNUG_CHECK(false);
  }
}

bool IsConvertible(ElementType type) {
  return type == ElementType::kF64 || type == ElementType::kF32 || type == ElementType::kBF16 ||
         type == ElementType::kF16;
}

}  // namespace

float HalfToFloat(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int fraction = bits & 0x3FF;
  float magnitude;
  if (exponent == 0x1F) {
    magnitude = fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

bool CanConvert(ElementType from, DType to) {
  return from == ElementTypeOf(to) || (IsConvertible(from) && IsFloating(to));
}

void Convert(ElementType from, absl::Span<const std::byte> in, DType to, std::byte* out) {
  SNUG_CHECK(CanConvert(from, to));
  if (from == ElementTypeOf(to)) {
    if (!in.empty()) std::memcpy(out, in.data(), in.size());
  } else if (to == DType::kFloat32) {
    ConvertTo(from, in, reinterpret_cast<float*>(out));
  } else if (to == DType::kFloat64) {
    ConvertTo(from, in, reinterpret_cast<double*>(out));
  } else {
    ConvertTo(from, in, reinterpret_cast<BFloat16*>(out));
  }
}

}  // namespace snug::core::checkpoint
