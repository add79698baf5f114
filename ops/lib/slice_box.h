// The part of an array that a `slice` takes: slice, its gradient, and the ops whose gradients are slices share it.
#pragma once

#include "ops/infer_context.h"

namespace snug::proto {
class Slice;
}

namespace snug {

struct SliceBox {
  Shape begin;  // index of the first element
  Shape step;
  Shape shape;  // of the part
};

// Resolves and checks the options against the shape of the whole.
absl::StatusOr<SliceBox> ResolveSlice(const InferContext& c, const proto::Slice& options, const Shape& whole);
// The same for options that were checked.
SliceBox ResolveSlice(const proto::Slice& options, const Shape& whole);

// Options of the slice that takes [begin, begin + size) along one axis.
proto::Slice SliceAlong(int axis, int64_t begin, int64_t size);

}  // namespace snug
