// The element types of safetensors files: all that have whole bytes. The engine computes with only some of them, to
// which others are converted.
#pragma once

#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/dtype.h"

namespace snug::core::checkpoint {

//       enumerator  name in files  bytes
#define SNUG_ELEMENT_TYPES(X) \
  X(kF64, "F64", 8)           \
  X(kF32, "F32", 4)           \
  X(kBF16, "BF16", 2)         \
  X(kF16, "F16", 2)           \
  X(kF8E5M2, "F8_E5M2", 1)    \
  X(kF8E4M3, "F8_E4M3", 1)    \
  X(kI64, "I64", 8)           \
  X(kI32, "I32", 4)           \
  X(kI16, "I16", 2)           \
  X(kI8, "I8", 1)             \
  X(kU64, "U64", 8)           \
  X(kU32, "U32", 4)           \
  X(kU16, "U16", 2)           \
  X(kU8, "U8", 1)             \
  X(kBool, "BOOL", 1)

enum class ElementType : uint8_t {
#define SNUG_ENUMERATOR(enumerator, name, bytes) enumerator,
  SNUG_ELEMENT_TYPES(SNUG_ENUMERATOR)
#undef SNUG_ENUMERATOR
};

int64_t SizeOf(ElementType type);
absl::string_view Name(ElementType type);
std::optional<ElementType> ElementTypeFromName(absl::string_view name);
std::string ElementTypeNames();  // "F64, F32, ..."

ElementType ElementTypeOf(DType dtype);
std::optional<DType> DTypeOf(ElementType type);  // the engine's type with the same representation

// Tells whether both have the same representation, or both are floating-point numbers.
bool CanConvert(ElementType from, DType to);

// Rounds to nearest where `to` is narrower. CanConvert(from, to) must be true.
void Convert(ElementType from, absl::Span<const std::byte> in, DType to, std::byte* out);

// Converts an IEEE half, with 1 + 5 + 10 bits.
float HalfToFloat(uint16_t bits);

}  // namespace snug::core::checkpoint
