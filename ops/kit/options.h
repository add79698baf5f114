// Options that many ops have, read and checked in one way: an axis, a shape, numbers for spatial dimensions.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <array>
#include <cstdint>

#include "engine/base/shape.h"

namespace snug::core {

// `axis` within `rank`. Negative axes count from the end. It is an error if the axis is none of them, or if it is the
// batch counted from the end: an op that cuts or joins the batch by accident is hard to find later. Ops that sum or
// normalise along an axis take it as it is said, because what has no batch any more may have one axis alone.
absl::StatusOr<int> AxisOption(absl::string_view option, int64_t axis, int rank);

// The shape in the repeated field `dim` of a message.
template <class Message>
absl::StatusOr<Shape> ShapeOption(const Message& options, bool allow_empty = false) {
  return MakeShape({options.dim().data(), static_cast<size_t>(options.dim_size())}, allow_empty);
}

template <class Message>
void SetShapeOption(const Shape& shape, Message* options) {
  for (const int64_t dim : shape.dims()) options->add_dim(dim);
}

inline constexpr int kMaxSpatial = 3;
inline constexpr int64_t kMaxSpatialOption = int64_t{1} << 30;  // keeps (kernel - 1) * dilation far from overflow

// Reads one number for all spatial dimensions, or one for each. Writes the first `spatial` entries of `to`. If nothing
// is given, they stay as they are.
absl::Status ReadSpatialOption(absl::string_view option, absl::Span<const int64_t> given, int spatial, int64_t at_least,
                               std::array<int64_t, kMaxSpatial>* to);

}  // namespace snug::core
