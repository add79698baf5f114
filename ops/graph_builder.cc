#include "ops/graph_builder.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"

namespace snug::core {
namespace {

const Port& PortAt(const std::vector<Port>& ports, int i) {
  return ports[std::min(static_cast<size_t>(i), ports.size() - 1)];  // the last port repeats if it is variadic
}

absl::Status CheckInputCount(const OpDef& op, int found) {
  const int most = static_cast<int>(op.inputs.size());
  int least = 0;
  for (const Port& port : op.inputs) least += !port.optional && !port.variadic;
  const bool variadic = most > 0 && op.inputs.back().variadic;
  if (found >= least && (variadic || found <= most)) return absl::OkStatus();
  std::string names;
  for (const Port& port : op.inputs) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", port.name, port.optional ? "?" : port.variadic ? "..." : "");
  }
  return absl::InvalidArgumentError(absl::StrCat("expected ",
                                                 variadic        ? absl::StrCat("at least ", least)
                                                 : least == most ? absl::StrCat(least)
                                                                 : absl::StrCat(least, " to ", most),
                                                 most == 1 && !variadic ? " input (" : " inputs (", names, "), found ",
                                                 found));
}

bool Accepts(PortType type, DType dtype) {
  switch (type) {
    case PortType::kFloating:
      return IsFloating(dtype);
    case PortType::kFloat32:
      return dtype == DType::kFloat32 || dtype == DType::kFloat64;
    case PortType::kInteger:
      return dtype == DType::kInt32 || dtype == DType::kInt64;
    case PortType::kBytes:
      return dtype == DType::kUint8;
    case PortType::kAny:
      return true;
    case PortType::kKept:
      return IsFloating(dtype) || dtype == DType::kUint8;  // a slot may be 8 bits for each number
  }
  return false;
}

absl::string_view Describe(PortType type) {
  switch (type) {
    case PortType::kFloating:
      return "a floating-point value";
    case PortType::kFloat32:
      return "float32 (float64 in a float64 network)";
    case PortType::kInteger:
      return "int32 or int64";
    case PortType::kBytes:
      return "uint8";
    case PortType::kAny:
      return "anything";
    case PortType::kKept:
      return "float32, bfloat16 or uint8 (float64 in a float64 network)";
  }
  return "";
}

absl::Status CheckInputTypes(const OpDef& op, const NodeTypes& types) {
  const ValueType* first_floating = nullptr;
  int first_index = 0;
  for (int i = 0; i < types.num_inputs(); ++i) {
    const Port& port = PortAt(op.inputs, i);
    const auto error = [&](const std::string& message) {
      return About({.kind = ErrorPart::Kind::kInput, .index = i},
                   absl::InvalidArgumentError(absl::StrCat("input ", i, " \"", port.name, "\": ", message)));
    };
    if (!types.has_input(i)) {
      if (!port.optional) return error("is missing");
      continue;
    }
    const ValueType& type = types.input(i);
    if (!Accepts(port.type, type.dtype)) {
      return error(absl::StrCat("expected ", Describe(port.type), ", found ", absl::string_view(Name(type.dtype)),
                                type.shape.ToString()));
    }
    if (port.type != PortType::kFloating) continue;
    if (first_floating == nullptr) {
      first_floating = &type;
      first_index = i;
    } else if (type.dtype != first_floating->dtype) {
      return error(absl::StrCat("expected ", absl::string_view(Name(first_floating->dtype)), " like input ",
                                first_index, ", found ", absl::string_view(Name(type.dtype)),
                                "; a cast layer converts"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InferTypes(const OpDef& op, NodeTypes* types) {
  if (op.traits.layer_only) {
    return absl::InternalError(absl::StrCat("op \"", op.name, "\" is for layers only: it has no nodes"));
  }
  if (op.traits.control) {
    return absl::InternalError(absl::StrCat("op \"", op.name, "\" has sub-graphs: only the compiler adds its nodes"));
  }
  SNUG_RETURN_IF_ERROR(CheckInputCount(op, types->num_inputs()));
  SNUG_RETURN_IF_ERROR(CheckInputTypes(op, *types));
  std::vector<std::string> names;
  names.reserve(op.inputs.size());
  for (const Port& port : op.inputs) names.emplace_back(port.name);
  types->outputs.clear();
  InferContext context(types, names);
  SNUG_RETURN_IF_ERROR(op.infer(context));
  for (const ValueType& output : types->outputs) {
    SNUG_RETURN_IF_ERROR(MakeShape(output.shape.dims(), /*allow_empty=*/true));
  }
  return absl::OkStatus();
}

NodeTypes TypesOf(const Graph& graph, const Node& node) {
  NodeTypes types;
  types.options = node.options;
  for (const ValueId input : node.inputs) {
    types.inputs.push_back(input.valid() ? graph.type(input) : ValueType());
    types.present.push_back(input.valid());
  }
  for (const ValueId output : node.outputs) types.outputs.push_back(graph.type(output));
  return types;
}

Cost CostOf(const OpDef& op, const NodeTypes& types) {
  Cost cost;
  if (op.cost != nullptr) cost = op.cost(types);
  if (op.traits.view) return cost;
  if (op.cost == nullptr) {
    for (const ValueType& output : types.outputs) cost.flops += static_cast<double>(output.num_elements());
  }
  if (cost.bytes == 0) {
    for (int i = 0; i < types.num_inputs(); ++i) {
      if (types.has_input(i)) cost.bytes += static_cast<double>(types.input(i).size_bytes());
    }
    for (const ValueType& output : types.outputs) cost.bytes += static_cast<double>(output.size_bytes());
  }
  return cost;
}

absl::StatusOr<NodeId> GraphBuilder::Add(NodeSpec spec) {
  const OpDef* op = registry_.Find(spec.op);
  if (op == nullptr) return absl::NotFoundError(absl::StrCat("unknown op \"", spec.op, "\""));
  NodeTypes types;
  types.options = spec.options;
  for (const ValueId input : spec.inputs) {
    types.inputs.push_back(input.valid() ? graph_.type(input) : ValueType());
    types.present.push_back(input.valid());
  }
  SNUG_RETURN_IF_ERROR(InferTypes(*op, &types));
  spec.output_types = std::move(types.outputs);
  return graph_.AddNode(std::move(spec));
}

absl::StatusOr<std::vector<ValueId>> GraphBuilder::AddBefore(NodeId before, const Node& like, NodeSpec spec) {
  spec.loc = like.loc;
  spec.phase = like.phase;
  spec.random_id = like.random_id;
  spec.forward = like.forward;
  const NodeId previous = graph_.insertion_point();
  graph_.SetInsertionPoint(before);
  const absl::StatusOr<NodeId> node = Add(std::move(spec));
  graph_.SetInsertionPoint(previous);
  SNUG_RETURN_IF_ERROR(node.status());
  return graph_.node(*node).outputs;
}

absl::Status NodeError(const SourceLoc& loc, absl::string_view name, absl::string_view op, const absl::Status& status) {
  const std::string where = loc.ToString();
  return Annotate(status, absl::StrCat(where, where.empty() ? "" : ": ", "layer \"", name, "\" (", op, ")"));
}

}  // namespace snug::core
