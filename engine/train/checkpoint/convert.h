// Elements of a file as the engine's own type.
#pragma once

#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>

#include "engine/train/checkpoint/element_type.h"

namespace snug::checkpoint {

// The same representation, or floating-point numbers both.
bool CanConvert(ElementType from, DType to);

// Rounds to nearest where `to` is the narrower. Only what CanConvert.
void Convert(ElementType from, absl::Span<const std::byte> in, DType to, std::byte* out);

// An IEEE half, 1 + 5 + 10 bits.
float HalfToFloat(uint16_t bits);

}  // namespace snug::checkpoint
