// constant: numbers written in the model file. It is only a layer: its output is a Variable that never changes.
#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/kit/options.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"
#include "proto/data_type.h"
#include "proto/network.pb.h"

namespace snug::core::ops::constant {
namespace {

absl::Status Layer(LayerContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckInputs(0));
  const auto& options = c.options<proto::Constant>();
  absl::StatusOr<Shape> shape = ShapeOption(options);
  if (!shape.ok()) return OptionError("dim", shape.status().message());
  const DType dtype = proto::ToDType(options.dtype(), c.floating());
  c.SetOutput(0, c.ConstantValue("", dtype, *shape, {options.value().begin(), options.value().end()}));
  return c.status();
}

}  // namespace

SNUG_OPS(constant) {
  return {{.name = "constant",
           .doc = "y = the numbers of `value`, shaped `dim`",
           .outputs = {{"y", PortType::kAny}},
           .layer = Layer,
           .traits = {.layer_only = true}}};
}

}  // namespace snug::core::ops::constant
