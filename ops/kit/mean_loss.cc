#include "ops/kit/mean_loss.h"

#include <absl/strings/str_cat.h>

#include "engine/base/error_part.h"
#include "proto/data_type.h"

namespace snug::core {

std::vector<ValueId> Float32Inputs(LayerContext& c) {
  std::vector<ValueId> inputs = c.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (c.type(inputs[i]).dtype != DType::kBFloat16) continue;
    inputs[i] = c.Op("cast", {inputs[i]}, proto::CastTo(DType::kFloat32), i == 0 ? "x.float32" : "target.float32");
  }
  return inputs;
}

absl::Status CheckTargetShape(const LayerContext& c) {
  const Shape& x = c.type(c.input(0)).shape;
  const Shape& target = c.type(c.input(1)).shape;
  if (x == target) return absl::OkStatus();
  return About({.kind = ErrorPart::Kind::kInput, .index = 1},
               absl::InvalidArgumentError(
                   absl::StrCat("input 1 \"target\" ", target.ToString(), ": expected shape ", x.ToString())));
}

absl::Status MeanLossLayer(LayerContext& c, absl::string_view op) {
  const ValueId errors = c.Op(op, Float32Inputs(c), c.options_handle(), op);
  c.SetOutput(0, c.Op("reduce_mean", {errors}));
  return c.status();
}

absl::Status GradientOfEven(GradContext& g, absl::string_view op) {
  for (const int i : {0, 1}) {
    if (!g.wants(i)) continue;
    g.SetInputGrad(i, g.Op(op, {g.input(i), g.input(1 - i), g.output_grad(0)}, g.options_handle()));
  }
  return g.status();
}

OpDef LossLayer(absl::string_view name, absl::string_view doc, LayerFn layer) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", PortType::kFloat32}, {"target", PortType::kFloat32}},
          .outputs = {{"loss", PortType::kFloat32}},
          .layer = layer,
          .gradient = [](GradContext& g) { return g.status(); },  // its nodes have theirs
          .traits = {.layer_only = true}};
}

}  // namespace snug::core
