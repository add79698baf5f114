#include "snug/internal/outside_ops.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/error_part.h"
#include "engine/base/text/suggest.h"
#include "snug/internal/convert.h"
#include "snug/internal/custom.pb.h"

namespace snug {
inline namespace v0 {
namespace embed {
namespace {

// Calls a function that the program has given.
template <class Function, class... More>
absl::Status Call(const Function& function, const OpCall::State& state, More... more) {
  return ToEngine(Guarded([&]() -> Status { return function(OpCall(state), more...); }));
}

absl::Status Infer(core::InferContext& context) {
  const OutsideNode& node = OutsideNode::Of(context.options_handle());
  const Op& op = node.op->op;
  core::NodeTypes types;
  for (int i = 0; i < context.num_inputs(); ++i) {
    types.inputs.push_back(context.input(i));
    types.present.push_back(context.has_input(i));
  }
  std::vector<TensorType> outputs;
  SNUG_RETURN_IF_ERROR(Call(op.infer, {.node = &node, .types = &types}, &outputs));
  if (outputs.size() != static_cast<size_t>(op.outputs)) {
    return absl::InternalError(
        absl::StrCat("infer: expected the types of ", op.outputs, " outputs, found ", outputs.size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    SNUG_ASSIGN_OR_RETURN(const core::Shape shape, core::MakeShape(outputs[i].shape));
    context.SetOutput(static_cast<int>(i), ToEngine(outputs[i].dtype), shape);
  }
  if (op.in_place &&
      !(core::ValueType{ToEngine(outputs[0].dtype), *core::MakeShape(outputs[0].shape), {}}.size_bytes() ==
        context.input(0).size_bytes())) {
    return absl::InternalError("in_place: output 0 has not the size of input 0");
  }
  return absl::OkStatus();
}

absl::Status InferGradient(core::InferContext& context) {
  const OutsideNode& node = OutsideNode::Of(context.options_handle());
  int out = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.wanted[i]) context.SetOutput(out++, node.inputs[i].dtype, node.inputs[i].shape);
  }
  return absl::OkStatus();
}

using OutsideOpsByName = std::map<std::string, std::shared_ptr<const OutsideOp>>;

// Fails with NotFound, which suggests the nearest name.
absl::StatusOr<std::shared_ptr<const OutsideOp>> Find(const OutsideOpsByName& ops, const std::string& name) {
  if (const auto it = ops.find(name); it != ops.end()) return it->second;
  const google::protobuf::OneofDescriptor* const ours = proto::Layer::descriptor()->FindOneofByName("op");
  core::Suggester suggester(name);
  for (int i = 0; i < ours->field_count(); ++i) suggester.Consider(std::string(ours->field(i)->name()));
  for (const auto& [known, op] : ops) suggester.Consider(known);
  return core::About(
      {.kind = core::ErrorPart::Kind::kOption, .name = "op"},
      absl::NotFoundError(absl::StrCat(
          "option \"op\": unknown op \"", name, "\"",
          suggester.best() == name ? "; an op of the library is a field of its own" : suggester.Question())));
}

absl::Status MakeLayer(const OutsideOpsByName& ops, core::LayerContext& context) {
  const Custom& written = context.options<Custom>();
  SNUG_ASSIGN_OR_RETURN(std::shared_ptr<const OutsideOp> outside, Find(ops, written.op()));
  const OutsideNode node = NodeOf(std::move(outside), written);
  const Op& op = node.op->op;
  SNUG_RETURN_IF_ERROR(context.CheckInputs(op.inputs));
  std::vector<core::ValueId> inputs = context.inputs();
  if (op.parameters) {
    core::NodeTypes types;
    for (const core::ValueId input : inputs) {
      types.inputs.push_back(context.type(input));
      types.present.push_back(true);
    }
    std::vector<OpParameter> parameters;
    SNUG_RETURN_IF_ERROR(Call(op.parameters, {.node = &node, .types = &types}, &parameters));
    for (OpParameter& parameter : parameters) {
      SNUG_ASSIGN_OR_RETURN(const core::Shape shape, core::MakeShape(parameter.shape));
      const auto init = parameter.init == OpParameter::Init::kConstant ? core::ParameterSpec::Init::kConstant
                        : parameter.init == OpParameter::Init::kNormal ? core::ParameterSpec::Init::kNormal
                                                                       : core::ParameterSpec::Init::kTorchLinear;
      inputs.push_back(context.Parameter({.name = std::move(parameter.name),
                                          .shape = shape,
                                          .init = init,
                                          .value = parameter.value,
                                          .fan_in = std::max<int64_t>(parameter.fan_in, 1)}));
    }
  }
  const std::vector<core::ValueId> outputs = context.Ops(op.name, std::move(inputs), node.ToOptions());
  for (size_t i = 0; i < outputs.size(); ++i) context.SetOutput(static_cast<int>(i), outputs[i]);
  return context.status();
}

absl::Status Gradient(core::GradContext& context) {
  OutsideNode node = OutsideNode::Of(context.options_handle());
  node.gradient = true;
  std::vector<core::ValueId> inputs;
  for (int i = 0; i < context.num_inputs(); ++i) {
    node.inputs.push_back(context.input_type(i));
    node.wanted.push_back(context.wants(i));
    inputs.push_back(node.op->op.gradient_reads_inputs ? context.input(i) : core::ValueId());
  }
  for (int i = 0; i < context.num_outputs(); ++i) {
    node.outputs.push_back(context.output_type(i));
    inputs.push_back(node.op->op.gradient_reads_outputs ? context.output(i) : core::ValueId());
  }
  for (int i = 0; i < context.num_outputs(); ++i) inputs.push_back(context.output_grad(i));
  const std::vector<core::ValueId> grads = context.Ops(node.op->gradient_name, std::move(inputs), node.ToOptions());
  SNUG_RETURN_IF_ERROR(context.status());
  size_t next = 0;
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (context.wants(i)) context.SetInputGrad(i, grads[next++]);
  }
  return context.status();
}

// Makes the row of a kernel out of a function that a program has given, Op::kernel or Op::gradient. The node's options
// name the op to which the function belongs.
template <class Function>
core::KernelRow RowOf(const Function& function) {
  return {.name = "plain", .run = [function](const core::KernelContext& context) {
            return Call(function, {.node = &OutsideNode::Of(context.types().options),
                                   .types = &context.types(),
                                   .kernel = &context,
                                   .threads = context.threads()});
          }};
}

absl::Status Check(const Op& op) {
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("op \"", op.name, "\": ", what));
  };
  const auto is_word = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  if (op.name.empty() || !std::all_of(op.name.begin(), op.name.end(), is_word)) {
    return wrong("expected a name of letters, digits and underscores");
  }
  if (op.inputs < 0) return wrong(absl::StrCat("expected at least 0 inputs, found ", op.inputs));
  if (op.outputs < 1) return wrong(absl::StrCat("expected at least 1 output, found ", op.outputs));
  if (!op.infer) return wrong("expected a function `infer`, found none");
  if (!op.kernel) return wrong("expected a function `kernel`, found none");
  if (op.in_place && op.inputs < 1) return wrong("in_place needs an input");
  return absl::OkStatus();
}

}  // namespace

OutsideOps::OutsideOps()
    : core::OpRegistry(core::OpRegistry::Builtin()), outside_(std::make_shared<OutsideOpsByName>()) {
  SNUG_CHECK_OK(AddAll("snug/internal/outside_ops", {{.name = "snug.custom",
                                                      .doc = "a layer of an op that the program brought",
                                                      .layer = Layer(),
                                                      .traits = {.layer_only = true}}}));
}

core::LayerFn OutsideOps::Layer() const {
  return [ops = outside_](core::LayerContext& context) { return MakeLayer(*ops, context); };
}

absl::Status OutsideOps::Add(Op op) {
  SNUG_RETURN_IF_ERROR(Check(op));
  auto outside = std::make_shared<OutsideOp>();
  outside->op = std::move(op);
  outside->gradient_name = absl::StrCat(outside->op.name, "_grad");
  // The ops have no samples, because only the program could run generic tests on them.
  const core::SamplesFn no_samples = [](core::SampleBuilder&) {};
  core::OpDef forward{.name = outside->op.name,
                      .doc = outside->op.doc,
                      .outputs = {{.name = "y", .type = core::PortType::kAny, .variadic = true}},
                      .infer = Infer,
                      .layer = Layer(),
                      .gradient = outside->op.gradient ? Gradient : nullptr,
                      .kernels = {RowOf(outside->op.kernel)},
                      .samples = no_samples};
  for (int i = 0; i < outside->op.inputs; ++i) forward.inputs.push_back({.name = "x", .type = core::PortType::kAny});
  if (outside->op.parameters) {
    forward.inputs.push_back({.name = "parameter", .type = core::PortType::kAny, .variadic = true});
  }
  if (outside->op.in_place) forward.aliases = {{.kind = core::Alias::Kind::kMayShare, .output = 0, .input = 0}};
  std::vector<core::OpDef> defs = {std::move(forward)};
  if (outside->op.gradient) {
    defs.push_back({.name = outside->gradient_name,
                    .doc = "the gradients of the inputs, from inputs, outputs and output gradients",
                    .inputs = {{.name = "value", .type = core::PortType::kAny, .optional = true, .variadic = true}},
                    .outputs = {{.name = "dx", .type = core::PortType::kAny, .variadic = true}},
                    .infer = InferGradient,
                    .kernels = {RowOf(outside->op.gradient)},
                    .samples = no_samples});
  }
  outside_->try_emplace(outside->op.name, outside);  // must be kept, because the definitions point into it
  return AddAll("the program", std::move(defs));
}

}  // namespace embed
}  // namespace v0
}  // namespace snug
