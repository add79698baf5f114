// parameter: a Variable of its own, read as it is. It is only a layer: its output is the Variable's value.
#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/kit/options.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::parameter {
namespace {

absl::Status Layer(LayerContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckInputs(0));
  const auto& options = c.options<proto::Parameter>();
  absl::StatusOr<Shape> shape = ShapeOption(options);
  if (!shape.ok()) return OptionError("dim", shape.status().message());
  // The fans are counted as in a weight [out, in, window...] (PyTorch's rule); a vector counts as `in`.
  const int rank = shape->rank();
  const int64_t window = rank > 2 ? shape->Count(2, rank) : 1;
  const int64_t fan_in = rank == 0 ? 1 : rank == 1 ? (*shape)[0] : (*shape)[1] * window;
  const int64_t fan_out = rank == 0 ? 1 : (*shape)[0] * window;
  c.SetOutput(0, c.Parameter({.name = "",
                              .shape = *shape,
                              .init = ParameterSpec::Init::kConstant,
                              .value = 0,
                              .fan_in = fan_in,
                              .fan_out = fan_out,
                              .initializer = options.has_init() ? proto::MakeOptions(options.init()) : Options()}));
  return c.status();
}

}  // namespace

SNUG_OPS(parameter) {
  return {{.name = "parameter",
           .doc = "y = a trained Variable named like the layer, initially 0 unless `init` says otherwise",
           .outputs = {{"y"}},
           .layer = Layer,
           .traits = {.layer_only = true}}};
}

}  // namespace snug::core::ops::parameter
