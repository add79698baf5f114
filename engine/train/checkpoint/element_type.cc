#include "engine/train/checkpoint/element_type.h"

#include <absl/strings/str_cat.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/base/bfloat16.h"
#include "engine/base/status.h"

namespace snug::core::checkpoint {

int64_t SizeOf(ElementType type) {
#define SNUG_SIZE(enumerator, name, bytes) bytes,
  static constexpr int64_t kSizes[] = {SNUG_ELEMENT_TYPES(SNUG_SIZE)};
#undef SNUG_SIZE
  return kSizes[static_cast<size_t>(type)];
}

absl::string_view Name(ElementType type) {
#define SNUG_NAME(enumerator, name, bytes) name,
  static constexpr absl::string_view kNames[] = {SNUG_ELEMENT_TYPES(SNUG_NAME)};
#undef SNUG_NAME
  return kNames[static_cast<size_t>(type)];
}

std::optional<ElementType> ElementTypeFromName(absl::string_view text) {
#define SNUG_FROM_NAME(enumerator, name, bytes) \
  if (text == name) return ElementType::enumerator;
  SNUG_ELEMENT_TYPES(SNUG_FROM_NAME)
#undef SNUG_FROM_NAME
  return std::nullopt;
}

std::string ElementTypeNames() {
  std::string names;
#define SNUG_APPEND(enumerator, name, bytes) absl::StrAppend(&names, names.empty() ? "" : ", ", name);
  SNUG_ELEMENT_TYPES(SNUG_APPEND)
#undef SNUG_APPEND
  return names;
}

ElementType ElementTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ElementType::kF32;
    case DType::kBFloat16:
      return ElementType::kBF16;
    case DType::kFloat64:
      return ElementType::kF64;
    case DType::kInt32:
      return ElementType::kI32;
    case DType::kInt64:
      return ElementType::kI64;
    case DType::kUint8:
      return ElementType::kU8;
  }
  return ElementType::kU8;
}

std::optional<DType> DTypeOf(ElementType type) {
  for (const DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kUint8}) {
    if (ElementTypeOf(dtype) == type) return dtype;
  }
  return std::nullopt;
}

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
