#include "engine/compile/kernels/widen.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/compile/kernels/conversions.h"

namespace snug::core {

void Widener::Read(NodeId id, size_t i, ValueId value) {
  graph_.node(id).inputs[i] = value;
  readers_.Add(value, id);
}

ValueId Widener::Cast(ValueId value, DType dtype, NodeId before, NodeId beside) {
  const ValueId result = InsertCast(graph_, value, dtype, before, beside);
  readers_.Add(value, graph_.value(result).producer);
  return result;
}

std::vector<NodeId> Widener::Widen(NodeId id) {
  std::vector<NodeId> casts;
  const auto narrow = [this](ValueId value) { return value.valid() && graph_.type(value).dtype == DType::kBFloat16; };
  for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
    const ValueId input = graph_.node(id).inputs[i];
    if (!narrow(input)) continue;
    ValueId wide = ParameterOf(input);
    if (!wide.valid()) {
      const auto before = casts_before_.find(input);
      wide = before != casts_before_.end() ? before->second : casts_.count(input) > 0 ? casts_.at(input) : ValueId();
      if (!wide.valid()) {
        wide = Cast(input, DType::kFloat32, id, id);
        casts.push_back(graph_.value(wide).producer);
      }
      casts_[input] = wide;
    }
    Read(id, i, wide);
  }
  const std::vector<ValueId> outputs = graph_.node(id).outputs;
  for (const ValueId output : outputs) {
    if (!narrow(output)) continue;
    graph_.value(output).type.dtype = DType::kFloat32;
    const ValueId rounded = Cast(output, DType::kBFloat16, graph_.node(id).next, id);
    readers_.ReadInstead(graph_, output, rounded);
    casts.push_back(graph_.value(rounded).producer);
    casts_[rounded] = output;
    if (graph_.node(id).phase == Phase::kBackward) ReadUnrounded(output, rounded);
  }
  return casts;
}

void Widener::Unround(NodeId id) {
  for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
    const ValueId input = graph_.node(id).inputs[i];
    if (!input.valid() || graph_.type(input).dtype != DType::kBFloat16) continue;
    const ValueId parameter = ParameterOf(input);
    if (parameter.valid()) Read(id, i, parameter);
  }
  for (const ValueId output : graph_.node(id).outputs) {
    if (!output.valid() || graph_.type(output).dtype != DType::kBFloat16 || !UpdatesAloneRead(output)) continue;
    for (const NodeId reader : readers_.Of(output)) {
      if (!WidensForFetching(reader, output)) continue;
      maybe_unread_.push_back(reader);
      readers_.ReplaceUses(graph_, graph_.node(reader).outputs[0], output);
    }
    graph_.value(output).type.dtype = DType::kFloat32;
  }
}

// Says whether the node casts `value` to float32, and no other node reads that: it is only fetched. A gradient that is
// looked at must not be another one than updates would get if it were not.
bool Widener::WidensForFetching(NodeId id, ValueId value) const {
  const Node& node = graph_.node(id);
  if (!IsCast(node) || node.inputs[0] != value) return false;
  const ValueId wide = node.outputs[0];
  ValueType type = graph_.type(value);
  type.dtype = DType::kFloat32;
  if (!(graph_.type(wide) == type)) return false;
  const std::vector<NodeId> readers = readers_.Of(wide);
  return std::none_of(readers.begin(), readers.end(), [&](NodeId reader) {
    const std::vector<ValueId>& inputs = graph_.node(reader).inputs;
    return std::find(inputs.begin(), inputs.end(), wide) != inputs.end();
  });
}

// Says whether every reader may read the value in float32 instead, and there is an update among them.
bool Widener::UpdatesAloneRead(ValueId value) const {
  for (const Output& output : graph_.outputs) {
    if (output.value == value) return false;
  }
  for (const ValueId objective : graph_.objectives) {
    if (objective == value) return false;
  }
  bool read = false;
  for (const NodeId id : readers_.Of(value)) {
    if (WidensForFetching(id, value)) continue;
    const Node& node = graph_.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != value) continue;
      read = true;
      if (!MayReadInFloat32(graph_, registry_, id, i)) return false;
    }
  }
  return read;
}

void Widener::Pass(NodeId id) {
  casts_before_ = std::exchange(casts_, {});
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
  maybe_unread_.push_back(graph_.value(rounded).producer);
  for (const NodeId id : readers_.Of(rounded)) {
    const Node& node = graph_.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == rounded && MayReadInstead(graph_, registry_, id, i, value)) Read(id, i, value);
    }
    if (!IsCast(node) || node.inputs[0] != rounded) continue;
    if (!(graph_.type(node.outputs[0]) == graph_.type(value))) continue;
    maybe_unread_.push_back(id);
    readers_.ReplaceUses(graph_, node.outputs[0], value);
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
