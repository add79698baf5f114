// What ops that work along one axis have in common.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/str_cat.h>

#include <cstdint>
#include <limits>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kit/options.h"

namespace snug::core {

// An array seen as [outer][width][inner], where `width` is the axis.
struct AlongAxis {
  AlongAxis(const Shape& shape, int axis)
      : outer(shape.Count(0, axis)), width(shape[axis]), inner(shape.Count(axis + 1, shape.rank())) {}

  int64_t outer, width, inner;
};

// Reads the axis of input 0 whose entries are numbered in an int32.
inline absl::StatusOr<int> NumberedAxis(const InferContext& c, int64_t option) {
  SNUG_ASSIGN_OR_RETURN(const int axis, AxisOption("axis", option, c.shape(0).rank()));
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t width = c.shape(0)[axis];
  if (width >= 1 && width <= kMost) return axis;
  return c.InputError(0, absl::StrCat("expected 1 to ", kMost, " entries along axis ", axis, ", found ", width));
}

}  // namespace snug::core
