#include "engine/compile/kernels/widen.h"

#include <map>

#include "engine/compile/kernels/conversions.h"

namespace snug::core {

std::vector<NodeId> Widener::Widen(NodeId id) {
  std::vector<NodeId> casts;
  const auto narrow = [this](ValueId value) { return value.valid() && graph_.type(value).dtype == DType::kBFloat16; };
  for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
    const ValueId input = graph_.node(id).inputs[i];
    if (!narrow(input)) continue;
    ValueId wide = ParameterOf(input);
    if (!wide.valid()) {
      wide = InsertCast(graph_, input, DType::kFloat32, id, id);
      casts.push_back(graph_.value(wide).producer);
    }
    graph_.node(id).inputs[i] = wide;
  }
  const std::vector<ValueId> outputs = graph_.node(id).outputs;
  for (const ValueId output : outputs) {
    if (!narrow(output)) continue;
    graph_.value(output).type.dtype = DType::kFloat32;
    const ValueId rounded = InsertCast(graph_, output, DType::kBFloat16, graph_.node(id).next, id);
    ReadInstead(graph_, output, rounded);
    casts.push_back(graph_.value(rounded).producer);
    if (graph_.node(id).phase == Phase::kBackward) ReadUnrounded(output, rounded);
  }
  return casts;
}

void Widener::Pass(NodeId id) {
  const Node& node = graph_.node(id);
  for (const Alias& alias : registry_.Get(node.op).aliases) {
    if (alias.kind == Alias::Kind::kMutates) mutated_.insert(node.inputs[static_cast<size_t>(alias.input)]);
  }
}

// Returns the float32 Variable that `value` is a rounded copy of, if it has not changed since.
ValueId Widener::ParameterOf(ValueId value) {
  const NodeId cast = graph_.value(value).producer;
  if (!cast.valid() || !IsCast(graph_.node(cast))) return {};
  const ValueId source = graph_.node(cast).inputs[0];
  const VariableId variable = graph_.value(source).variable;
  if (!variable.valid() || graph_.type(source).dtype != DType::kFloat32 || mutated_.contains(source)) return {};
  maybe_unread_.push_back(cast);
  return source;
}

// Lets nodes that cast `rounded` back to float32, and updates, read `value`, from which it was made.
void Widener::ReadUnrounded(ValueId value, ValueId rounded) {
  const NodeId rounding = graph_.value(rounded).producer;
  maybe_unread_.push_back(rounding);
  for (NodeId id = graph_.node(rounding).next; id.valid(); id = graph_.node(id).next) {
    Node& node = graph_.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == rounded && MayReadInstead(graph_, registry_, id, i, value)) node.inputs[i] = value;
    }
    if (!IsCast(node) || node.inputs[0] != rounded) continue;
    if (!(graph_.type(node.outputs[0]) == graph_.type(value))) continue;
    maybe_unread_.push_back(id);
    graph_.ReplaceUses(node.outputs[0], value);
  }
}

// Later casts go first, because they may be what reads the others.
void Widener::RemoveUnreadCasts() {
  if (maybe_unread_.empty()) return;
  std::map<ValueId, int> readers;
  const std::vector<NodeId> order = graph_.ProgramOrder();
  for (const NodeId id : order) {
    for (const ValueId input : graph_.node(id).inputs) ++readers[input];
  }
  for (const Output& output : graph_.outputs) ++readers[output.value];
  for (const ValueId objective : graph_.objectives) ++readers[objective];
  const std::set<NodeId> casts(maybe_unread_.begin(), maybe_unread_.end());
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (!casts.contains(*it) || readers[graph_.node(*it).outputs[0]] > 0) continue;
    --readers[graph_.node(*it).inputs[0]];
    graph_.RemoveNode(*it);
  }
}

}  // namespace snug::core
