#include "engine/compile/memory/views.h"

#include <algorithm>
#include <optional>

#include "ops/graph_builder.h"

namespace snug::core {
namespace {

// Returns the offset of each output in input 0, or of each input in output 0. Empty where one of them is no range, or
// begins where values may not.
std::vector<int64_t> Offsets(RangeFn range, const NodeTypes& types, int ports, int64_t alignment) {
  std::vector<int64_t> offsets;
  for (int i = 0; i < ports; ++i) {
    const std::optional<int64_t> offset = range(types, i);
    if (!offset.has_value() || *offset % alignment != 0) return {};
    offsets.push_back(*offset);
  }
  return offsets;
}

std::vector<int64_t> OffsetsInInput(const Graph& graph, const Node& node, const OpDef& op, int64_t alignment) {
  if (op.output_in_input == nullptr) return {};
  const NodeTypes types = TypesOf(graph, node);
  return Offsets(op.output_in_input, types, types.num_outputs(), alignment);
}

std::vector<int64_t> OffsetsInOutput(const Graph& graph, const Node& node, const OpDef& op, int64_t alignment) {
  if (op.input_in_output == nullptr) return {};
  const NodeTypes types = TypesOf(graph, node);
  return Offsets(op.input_in_output, types, types.num_inputs(), alignment);
}

// Values that are written where the whole needs them must be there once, and be written by kernels.
bool MayLieInOutput(const Graph& graph, const Node& node) {
  std::vector<ValueId> inputs = node.inputs;
  std::sort(inputs.begin(), inputs.end());
  return std::adjacent_find(inputs.begin(), inputs.end()) == inputs.end() &&
         std::all_of(inputs.begin(), inputs.end(), [&](ValueId input) { return graph.value(input).producer.valid(); });
}

}  // namespace

PossibleViews::PossibleViews(const Graph& graph, const OpRegistry& registry, int64_t alignment) : graph_(graph) {
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    const OpDef& op = registry.Get(node.op);
    View view{.node = id,
              .always = op.traits.view,
              .in_input = OffsetsInInput(graph, node, op, alignment),
              .in_output = OffsetsInOutput(graph, node, op, alignment)};
    view.optional = !view.in_input.empty() || !view.in_output.empty();
    if (!view.in_output.empty() && !MayLieInOutput(graph, node)) view.in_output.clear();
    if (view.always || view.optional) views_.push_back(std::move(view));
  }
}

std::vector<NodeId> PossibleViews::Optional() const {
  std::vector<NodeId> optional;
  for (const View& view : views_) {
    if (view.optional) optional.push_back(view.node);
  }
  return optional;
}

std::vector<char> PossibleViews::AllCopied() const {
  std::vector<char> copied(graph_.node_capacity(), 0);
  for (const NodeId id : Optional()) copied[static_cast<size_t>(id.index)] = 1;
  return copied;
}

Views::Views(const PossibleViews& possible, const std::vector<char>& copied)
    : graph_(possible.graph()), is_view_(graph_.node_capacity(), 0), within_(graph_.value_capacity()) {
  const auto index = [](NodeId id) { return static_cast<size_t>(id.index); };
  const std::vector<PossibleViews::View>& views = possible.views();
  for (const PossibleViews::View& view : views) {
    const Node& node = graph_.node(view.node);
    if (view.always) {
      for (const ValueId output : node.outputs) within(output) = {node.inputs[0], 0};
      is_view_[index(view.node)] = 1;
    } else if (copied[index(view.node)] == 0) {
      is_view_[index(view.node)] = LieInInput(node, view.in_input) ? 1 : 0;
    }
  }
  // Goes from the last node to the first: a value that two nodes join then lies in the larger result.
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    if (copied[index(view->node)] == 0 && LieInOutput(graph_.node(view->node), view->in_output)) {
      is_view_[index(view->node)] = 1;
    }
  }
}

ValueId Views::RootOf(ValueId value) const {
  while (within(value).in.valid()) value = within(value).in;
  return value;
}

int64_t Views::OffsetOf(ValueId value) const {
  int64_t offset = 0;
  for (; within(value).in.valid(); value = within(value).in) offset += within(value).offset;
  return offset;
}

// Parts of Variables are copied, because the Variable may change before the part is read.
bool Views::LieInInput(const Node& node, const std::vector<int64_t>& offsets) {
  if (offsets.empty() || graph_.value(RootOf(node.inputs[0])).variable.valid()) return false;
  for (size_t i = 0; i < offsets.size(); ++i) within(node.outputs[i]) = {node.inputs[0], offsets[i]};
  return true;
}

// None of the inputs may lie in another value already.
bool Views::LieInOutput(const Node& node, const std::vector<int64_t>& offsets) {
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (within(node.inputs[i]).in.valid()) return false;
  }
  for (size_t i = 0; i < offsets.size(); ++i) within(node.inputs[i]) = {node.outputs[0], offsets[i]};
  return !offsets.empty();
}

}  // namespace snug::core
