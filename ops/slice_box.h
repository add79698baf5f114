// The part of an array that a `slice` takes: slice, its gradient, and the ops whose gradients are slices share it.
#pragma once

#include <absl/status/statusor.h>

#include "engine/base/shape.h"

namespace snug::proto {
class Slice;
}

namespace snug::core {

struct SliceBox {
  Shape begin;  // the index of the first element
  Shape step;
  Shape shape;  // the shape of the part
};

// Fails with an error that says which option does not suit the shape of the whole.
absl::StatusOr<SliceBox> ResolveSlice(const proto::Slice& options, const Shape& whole);

// Returns the options of a slice that takes [begin, begin + size) along one axis.
proto::Slice SliceAlong(int axis, int64_t begin, int64_t size);

}  // namespace snug::core
