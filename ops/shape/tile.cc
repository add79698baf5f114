// tile: x laid side by side along its axes, besides the batch. It is only a layer: x is seen with an axis of one entry
// before each axis that is repeated, is broadcast along these, and is seen as the result. Its gradients are sums.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/kit/options.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::tile {
namespace {

constexpr int kAtOnce = (kMaxRank - 1) / 2;  // so many axes are repeated by one node: each is seen as two

Options ShapeOptions(const Shape& shape) {
  proto::ShapeOf options;
  SetShapeOption(shape, &options);
  return proto::MakeOptions(options);
}

// Repeats x along up to kAtOnce axes from axis `end` - 1 on towards the first; `end` becomes the first of those that it
// has been through.
ValueId Repeat(LayerContext& c, ValueId x, const std::vector<int64_t>& repeats, int* end) {
  const Shape shape = c.type(x).shape;
  Shape result = shape;
  std::vector<std::pair<int64_t, int64_t>> pieces;  // from the last: how often, and how many elements
  int64_t piece = shape.Count(*end, shape.rank());
  int axis = *end;
  while (axis > 0) {
    const int64_t count = repeats[static_cast<size_t>(axis) - 1];
    if (count > 1 && static_cast<int>(pieces.size()) == kAtOnce) break;
    --axis;
    piece *= shape[axis];
    if (count == 1) continue;
    result[axis] *= count;
    pieces.emplace_back(count, piece);
    piece = 1;
  }
  *end = axis;
  if (pieces.empty()) return x;
  Shape apart = {piece * shape.Count(0, axis)};
  Shape repeated = apart;
  for (size_t i = pieces.size(); i-- > 0;) {
    apart.Append(1);
    repeated.Append(pieces[i].first);
    apart.Append(pieces[i].second);
    repeated.Append(pieces[i].second);
  }
  const bool last = axis == 0;
  const std::string suffix = last ? "" : absl::StrCat(axis);
  const ValueId seen = c.Op("reshape_to", {x}, ShapeOptions(apart), absl::StrCat("apart", suffix));
  const ValueId y = c.Op("broadcast_to", {seen}, ShapeOptions(repeated), absl::StrCat("repeated", suffix));
  return c.Op("reshape_to", {y}, ShapeOptions(result), last ? "" : absl::StrCat("tiled", suffix));
}

absl::Status Layer(LayerContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckInputs(1));
  const auto& options = c.options<proto::Tile>();
  const Shape from = c.type(c.input(0)).shape;
  const int expected = std::max(from.rank() - 1, 0);
  if (options.repeats_size() != expected) {
    return OptionError("repeats", absl::StrCat("expected ", expected, " numbers (one for each dimension of ",
                                               from.ToString(), " but the batch), found ", options.repeats_size()));
  }
  std::vector<int64_t> repeats = {1};
  Shape to = from;
  for (const int64_t count : options.repeats()) {
    const int axis = static_cast<int>(repeats.size());
    const int64_t most = kMaxElements / std::max<int64_t>(from[axis], 1);
    if (count < 1 || count > most) {
      return OptionError("repeats", absl::StrCat("expected between 1 and ", most, ", found ", count));
    }
    to[axis] *= count;
    if (absl::StatusOr<Shape> bounded = MakeShape(to.dims(), /*allow_empty=*/true); !bounded.ok()) {
      return OptionError("repeats", bounded.status().message());
    }
    repeats.push_back(count);
  }
  ValueId y = c.input(0);
  for (int end = from.rank(); end > 0 && c.status().ok();) y = Repeat(c, y, repeats, &end);
  c.SetOutput(0, y);
  return c.status();
}

}  // namespace

SNUG_OPS(tile) {
  return {{.name = "tile",
           .doc = "y = x laid side by side, `repeats` times along each axis but the batch",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .layer = Layer,
           .traits = {.layer_only = true}}};
}

}  // namespace snug::core::ops::tile
