// Converts elements of a file to the engine's own type.
#pragma once

#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>

#include "engine/train/checkpoint/element_type.h"

namespace snug::core::checkpoint {

// Tells whether both have the same representation, or both are floating-point numbers.
bool CanConvert(ElementType from, DType to);

// Rounds to nearest where `to` is narrower. CanConvert(from, to) must be true.
void Convert(ElementType from, absl::Span<const std::byte> in, DType to, std::byte* out);

// Converts an IEEE half, with 1 + 5 + 10 bits.
float HalfToFloat(uint16_t bits);

}  // namespace snug::core::checkpoint
