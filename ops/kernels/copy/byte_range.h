// Tells whether a part of an array is one range of its bytes, so that nobody needs to copy it.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/graph/value_type.h"

namespace snug::core {

// `part` holds the elements begin + i * step of `whole`. Returns the byte at which the part begins, if its elements lie
// in `whole` as they would on their own; nullopt if they do not.
std::optional<int64_t> RangeWithin(const ValueType& whole, const Shape& begin, const Shape& step,
                                   const ValueType& part);

// Does the same for a part that is cut out along one axis.
std::optional<int64_t> RangeAlong(const ValueType& whole, int axis, int64_t begin, const ValueType& part);

}  // namespace snug::core
