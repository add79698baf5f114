// Losses that are the mean, over all elements, of a function of x and target: a layer that becomes two nodes, the
// elementwise one of the function and its mean. In CUDA's fused kernels both are one.
//
// The function's ports are kFloat32: a loss has float32 also in a bfloat16 network.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <vector>

#include "ops/grad_context.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"

namespace snug::core {

// The layer's inputs as ports of kFloat32 take them.
std::vector<ValueId> Float32Inputs(LayerContext& c);

// Fails unless the target has the shape of x: a layer whose node would broadcast one of them must not take others.
absl::Status CheckTargetShape(const LayerContext& c);

// The layer's output is the mean of what `op` makes of its inputs, with its options.
absl::Status MeanLossLayer(LayerContext& c, absl::string_view op);

// OpDef::gradient of a function of x - target that is even: the target's gradient is `op` with the inputs the other way
// round.
absl::Status GradientOfEven(GradContext& g, absl::string_view op);

// The table entry of the layer.
OpDef LossLayer(absl::string_view name, absl::string_view doc, LayerFn layer);

}  // namespace snug::core
