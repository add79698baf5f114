// Reads a shape from the options of an op: the repeated field `dim` of its message.
#pragma once

#include <absl/status/statusor.h>

#include "engine/base/shape.h"

namespace snug {

template <class Message>
absl::StatusOr<Shape> ShapeOption(const Message& options, bool allow_empty = false) {
  return MakeShape({options.dim().data(), static_cast<size_t>(options.dim_size())}, allow_empty);
}

template <class Message>
void SetShapeOption(const Shape& shape, Message* options) {
  for (const int64_t dim : shape.dims()) options->add_dim(dim);
}

}  // namespace snug
