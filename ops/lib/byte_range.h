// Whether a part of an array is one range of its bytes, so that nobody need copy it.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/graph/value_type.h"

namespace snug {

// `part` holds the elements begin + i * step of `whole`. Where the part begins, in bytes, if its elements lie in
// `whole` as they do on their own; nullopt if they do not.
std::optional<int64_t> RangeWithin(const ValueType& whole, const Shape& begin, const Shape& step,
                                   const ValueType& part);

// The same of a part that is cut out along one axis.
std::optional<int64_t> RangeAlong(const ValueType& whole, int axis, int64_t begin, const ValueType& part);

}  // namespace snug
