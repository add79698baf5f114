#include "ops/grad_context.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/status.h"

namespace snug::core {

GradContext::GradContext(GraphBuilder& builder, NodeId node, std::vector<ValueId> output_grads,
                         std::vector<bool> wanted)
    : OpContext(builder),
      node_(node),
      output_grads_(std::move(output_grads)),
      wanted_(std::move(wanted)),
      input_grads_(wanted_.size()) {}

void GradContext::SetInputGrad(int i, ValueId grad) {
  if (!status().ok()) return;
  SNUG_CHECK_MSG(
      grad.valid() && type(grad).shape == input_type(i).shape,
      absl::StrCat("gradient of input ", i, " of ", node().op, " \"", node().name, "\": expected shape ",
                   input_type(i).shape.ToString(), ", found ", grad.valid() ? type(grad).shape.ToString() : "nothing"));
  input_grads_[static_cast<size_t>(i)] = grad;
}

void GradContext::SetInputGrads(absl::Span<const ValueId> grads) {
  for (int i = 0; i < static_cast<int>(grads.size()) && status().ok(); ++i) {
    if (wants(i)) SetInputGrad(i, grads[static_cast<size_t>(i)]);
  }
}

absl::Status GradContext::LayerStyle(absl::string_view op) {
  std::vector<ValueId> inputs = node().inputs;
  inputs.insert(inputs.end(), node().outputs.begin(), node().outputs.end());
  inputs.insert(inputs.end(), output_grads_.begin(), output_grads_.end());
  SetInputGrads(Ops(op, std::move(inputs), node().options));
  return status();
}

NodeSpec GradContext::Describe(absl::string_view op, absl::string_view suffix) {
  return {.name = absl::StrCat(node().name, "/", suffix.empty() ? op : suffix),
          .op = std::string(op),
          .loc = node().loc,
          .phase = Phase::kBackward,
          .random_id = node().random_id,
          .forward = node_};
}

}  // namespace snug::core
