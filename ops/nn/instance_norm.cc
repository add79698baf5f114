// instance_norm: normalises each channel (axis 1) of each sample by its own mean and variance. A layer that is
// group_norm with a group for each channel.
#include <absl/strings/str_cat.h>

#include <vector>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::instance_norm {
namespace {

absl::Status Layer(LayerContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckInputs(1));
  const auto& options = c.options<proto::InstanceNorm>();
  const Shape x = c.type(c.input(0)).shape;
  const int64_t elements = x.rank() > 2 ? x.Count(2, x.rank()) : 1;
  if (elements < 2) {
    return About({.kind = ErrorPart::Kind::kInput},
                 absl::InvalidArgumentError(absl::StrCat(
                     "input 0 \"x\" ", x.ToString(), ": expected more than one element in each channel of a sample")));
  }
  const Shape channels = {x[1]};
  std::vector<ValueId> inputs = {c.input(0)};
  if (options.affine()) {
    c.AppendScaleAndShift(channels, &inputs);
  }
  proto::GroupNorm group;
  group.set_groups(x[1]);
  group.set_epsilon(options.epsilon());
  c.SetOutput(0, c.Op("group_norm", inputs, proto::MakeOptions(group)));
  return c.status();
}

}  // namespace

SNUG_OPS(instance_norm) {
  return {{.name = "instance_norm",
           .doc = "y = (x - mean) / sqrt(var + epsilon) * weight + bias, mean and var of each channel of a sample",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .layer = Layer,
           .gradient = [](GradContext& g) { return g.status(); },  // its node has one
           .traits = {.layer_only = true}}};
}

}  // namespace snug::core::ops::instance_norm
