// What the ops that rearrange mean, as numbers: read from a node by those who compute them at once and by those who
// make layers of them.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "interchange/import/node.h"

namespace snug::core::onnx {

struct SliceRange {
  int axis;
  int64_t begin, step, count;  // of the elements that are taken; the step may be negative
};
// Of Slice, for each axis that it names.
absl::StatusOr<std::vector<SliceRange>> SliceRanges(NodeContext& c, const Dims& dims);

struct SplitSizes {
  int axis;
  std::vector<int64_t> sizes;
};
absl::StatusOr<SplitSizes> SplitSizesOf(NodeContext& c, const Dims& dims);

// The shapes that Reshape, Unsqueeze, Squeeze and Flatten give.
absl::StatusOr<Dims> ReshapeDims(NodeContext& c, const Dims& from);
absl::StatusOr<Dims> UnsqueezedDims(NodeContext& c, const Dims& from);
absl::StatusOr<Dims> SqueezedDims(NodeContext& c, const Dims& from);
absl::StatusOr<Dims> FlattenedDims(NodeContext& c, const Dims& from);
// Of Transpose.
absl::StatusOr<std::vector<int>> PermutationOf(NodeContext& c, int rank);

}  // namespace snug::core::onnx
