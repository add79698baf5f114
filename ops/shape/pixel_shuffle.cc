// pixel_shuffle: channels become pixels: y[c, h f + i, w f + j] = x[(c f + i) f + j, h, w]; and pixel_unshuffle, which
// is its inverse. Both are layers of a transpose between two views, for 1 to 3 spatial dimensions.
#include <absl/strings/str_cat.h>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::pixel_shuffle {
namespace {

absl::Status InputError(const Shape& x, absl::string_view message) {
  return About({.kind = ErrorPart::Kind::kInput, .index = 0},
               absl::InvalidArgumentError(absl::StrCat("input 0 \"x\" ", x.ToString(), ": ", message)));
}

// Returns the factor, or says what is wrong with it or with x.
absl::StatusOr<int64_t> Factor(LayerContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckInputs(1));
  const Shape& x = c.type(c.input(0)).shape;
  if (x.rank() < 3 || x.rank() > 5) {
    return InputError(x,
                      absl::StrCat("expected 3 to 5 dimensions (batch, channels, 1 to 3 spatial), found ", x.rank()));
  }
  const auto& options = c.options<proto::PixelShuffle>();
  if (!options.has_factor()) return OptionError("factor", "is missing");
  if (options.factor() < 1) return OptionError("factor", absl::StrCat("expected at least 1, found ", options.factor()));
  return options.factor();
}

void Reshape(LayerContext& c, ValueId* value, const proto::Reshape& dims, absl::string_view name) {
  *value = c.Op("reshape", {*value}, proto::MakeOptions(dims), name);
}

absl::Status Shuffle(LayerContext& c) {
  SNUG_ASSIGN_OR_RETURN(const int64_t factor, Factor(c));
  const Shape x = c.type(c.input(0)).shape;
  const int spatial = x.rank() - 2;
  int64_t channels = x[1];
  for (int i = 0; i < spatial; ++i) {
    if (channels % factor != 0) {
      return InputError(x, absl::StrCat("expected a multiple of ", factor, "^", spatial, " channels, found ", x[1]));
    }
    channels /= factor;
  }
  proto::Reshape split, joined;  // [channels, factors..., spatial...] and [channels, (spatial factor)...]
  proto::Transpose order;
  split.add_dim(channels);
  joined.add_dim(channels);
  order.add_axes(0);
  order.add_axes(1);
  for (int i = 0; i < spatial; ++i) split.add_dim(factor);
  for (int i = 0; i < spatial; ++i) {
    split.add_dim(x[2 + i]);
    joined.add_dim(x[2 + i] * factor);
    order.add_axes(2 + spatial + i);
    order.add_axes(2 + i);
  }
  ValueId value = c.input(0);
  Reshape(c, &value, split, "split");
  value = c.Op("transpose", {value}, proto::MakeOptions(order), "transpose");
  Reshape(c, &value, joined, "");
  c.SetOutput(0, value);
  return c.status();
}

absl::Status Unshuffle(LayerContext& c) {
  SNUG_ASSIGN_OR_RETURN(const int64_t factor, Factor(c));
  const Shape x = c.type(c.input(0)).shape;
  const int spatial = x.rank() - 2;
  int64_t channels = x[1];
  for (int axis = 2; axis < x.rank(); ++axis) {
    if (x[axis] % factor != 0) {
      return InputError(x, absl::StrCat("expected a multiple of ", factor, " along axis ", axis, ", found ", x[axis]));
    }
    channels *= factor;  // a divisor of x's elements, so this never overflows
  }
  proto::Reshape split, joined;  // [channels, (spatial, factor)...] and [channels factors, spatial...]
  proto::Transpose order;
  split.add_dim(x[1]);
  joined.add_dim(channels);
  order.add_axes(0);
  order.add_axes(1);
  for (int i = 0; i < spatial; ++i) {
    split.add_dim(x[2 + i] / factor);
    split.add_dim(factor);
    joined.add_dim(x[2 + i] / factor);
    order.add_axes(3 + 2 * i);
  }
  for (int i = 0; i < spatial; ++i) order.add_axes(2 + 2 * i);
  ValueId value = c.input(0);
  Reshape(c, &value, split, "split");
  value = c.Op("transpose", {value}, proto::MakeOptions(order), "transpose");
  Reshape(c, &value, joined, "");
  c.SetOutput(0, value);
  return c.status();
}

OpDef LayerOf(absl::string_view name, absl::string_view doc, LayerFn layer) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", PortType::kAny}},
          .outputs = {{"y", PortType::kAny}},
          .layer = layer,
          .gradient = [](GradContext& /*g*/) { return absl::OkStatus(); },  // its nodes have theirs
          .traits = {.layer_only = true}};
}

}  // namespace

SNUG_OPS(pixel_shuffle) {
  return {LayerOf("pixel_shuffle", "y[c, h f + i, w f + j] = x[(c f + i) f + j, h, w] with f = factor", Shuffle),
          LayerOf("pixel_unshuffle", "y[(c f + i) f + j, h, w] = x[c, h f + i, w f + j] with f = factor", Unshuffle)};
}

}  // namespace snug::core::ops::pixel_shuffle
