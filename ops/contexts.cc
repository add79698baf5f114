#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/layer_context.h"
#include "ops/op_context.h"

namespace snug::core {

ValueId OpContext::Op(absl::string_view op, std::vector<ValueId> inputs, Options options, absl::string_view suffix) {
  const std::vector<ValueId> outputs = Ops(op, std::move(inputs), std::move(options), suffix);
  return outputs.empty() ? ValueId() : outputs.front();
}

std::vector<ValueId> OpContext::Ops(absl::string_view op, std::vector<ValueId> inputs, Options options,
                                    absl::string_view suffix) {
  if (!status_.ok()) return {};
  const OpDef& def = registry().Get(op);
  AdaptInputs(def, &inputs);
  if (!status_.ok()) return {};
  NodeSpec spec = Describe(op, suffix);
  spec.op = std::string(op);
  spec.inputs = std::move(inputs);
  spec.options = std::move(options);
  absl::StatusOr<NodeId> node = builder_.Add(std::move(spec));
  if (!node.ok()) {
    Fail(node.status());
    return {};
  }
  return builder_.graph().node(*node).outputs;
}

absl::Status LayerContext::CheckInputs(int expected) const {
  if (num_inputs() == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", expected, expected == 1 ? " input" : " inputs", ", found ", num_inputs()));
}

void LayerContext::AppendScaleAndShift(const Shape& shape, std::vector<ValueId>* inputs) {
  inputs->push_back(Parameter({.name = "weight", .shape = shape, .init = ParameterSpec::Init::kConstant, .value = 1}));
  inputs->push_back(Parameter({.name = "bias", .shape = shape, .init = ParameterSpec::Init::kConstant}));
}

void InferContext::SetOutput(int i, ValueType type) {
  auto& outputs = types_.outputs;
  if (static_cast<size_t>(i) >= outputs.size()) outputs.resize(static_cast<size_t>(i) + 1);
  outputs[static_cast<size_t>(i)] = std::move(type);
}

absl::Status InferContext::InputError(int i, absl::string_view message) const {
  const std::string& name = names_[std::min(static_cast<size_t>(i), names_.size() - 1)];
  return About(
      {.kind = ErrorPart::Kind::kInput, .index = i},
      absl::InvalidArgumentError(absl::StrCat("input ", i, " \"", name, "\" ", shape(i).ToString(), ": ", message)));
}

absl::Status InferContext::OptionError(absl::string_view option, absl::string_view message) {
  return core::OptionError(option, message);
}

absl::Status InferContext::CheckRank(int i, int min_rank, int max_rank) const {
  const int rank = shape(i).rank();
  if (rank >= min_rank && rank <= max_rank) return absl::OkStatus();
  const std::string expected = min_rank == max_rank ? absl::StrCat(min_rank) : absl::StrCat(min_rank, " to ", max_rank);
  return InputError(i, absl::StrCat("expected ", expected, " dimensions (batch first), found ", rank));
}

absl::Status InferContext::CheckShape(int i, const Shape& expected) const {
  if (shape(i) == expected) return absl::OkStatus();
  return InputError(i, absl::StrCat("expected shape ", expected.ToString()));
}

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

absl::Status GradientFromOutput(GradContext& g, absl::string_view op) {
  g.SetInputGrad(0, g.Op(op, {g.output(0), g.output_grad(0)}, g.options_handle()));
  return g.status();
}

absl::Status GradientFromInput(GradContext& g, absl::string_view op) {
  g.SetInputGrad(0, g.Op(op, {g.input(0), g.output_grad(0)}, g.options_handle()));
  return g.status();
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
