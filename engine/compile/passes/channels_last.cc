// Chooses layouts: convolution, pooling and batch norm run faster on channels-last images, and elementwise ops take any
// layout. Values that such nodes pass to each other form groups (union-find). A group that a node of the first kind
// touches becomes channels-last as a whole. Reorders are inserted only where the group meets graph inputs, Variables,
// outputs, and ops that only know plain values.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/kernels/conversions.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

class Groups {
 public:
  explicit Groups(size_t n) : parent_(n), channels_last_(n, false) { std::iota(parent_.begin(), parent_.end(), 0); }
  int Find(int i) {
    while (parent_[static_cast<size_t>(i)] != i) {
      int& p = parent_[static_cast<size_t>(i)];
      i = p = parent_[static_cast<size_t>(p)];
    }
    return i;
  }
  void Merge(int a, int b) {
    a = Find(a);
    b = Find(b);
    parent_[static_cast<size_t>(b)] = a;
    if (channels_last_[static_cast<size_t>(b)]) channels_last_[static_cast<size_t>(a)] = true;
  }
  void MarkChannelsLast(int i) { channels_last_[static_cast<size_t>(Find(i))] = true; }
  bool channels_last(int i) { return channels_last_[static_cast<size_t>(Find(i))]; }

 private:
  std::vector<int> parent_;
  std::vector<bool> channels_last_;
};

class LayoutPass {
 public:
  LayoutPass(Graph& graph, const OpRegistry& registry)
      : graph_(graph), registry_(registry), groups_(graph.value_capacity()) {}

  absl::Status Run() {
    const std::vector<NodeId> order = graph_.ProgramOrder();
    for (const NodeId id : order) Group(id);
    for (const NodeId id : order) SNUG_RETURN_IF_ERROR(Assign(id));
    for (Output& output : graph_.outputs) {
      if (graph_.type(output.value).layout.channels_last()) {
        output.value = InLayout(output.value, Layout::Plain(), NodeId(), graph_.value(output.value).producer);
      }
    }
    return absl::OkStatus();
  }

 private:
  static const Port& PortAt(const std::vector<Port>& ports, size_t i) { return ports[std::min(i, ports.size() - 1)]; }

  bool Flexible(const Node& node) const { return registry_.Get(node.op).traits.layout != LayoutRule::kPlain; }

  // Returns LayoutRule's full rank: the highest rank among the node's inputs if that is 3 to 5, else 0.
  int FullRank(const Node& node) const {
    int highest = 0;
    for (const ValueId input : node.inputs) {
      if (input.valid()) highest = std::max(highest, graph_.type(input).shape.rank());
    }
    return highest >= 3 && highest <= 5 ? highest : 0;
  }

  bool IsImage(ValueId value, const Port& port, int full_rank) const {
    return value.valid() && !port.plain_layout && full_rank > 0 && graph_.type(value).shape.rank() == full_rank;
  }

  // Returns the values of a flexible node that share one layout. Of its inputs it only counts those that flexible nodes
  // made; others keep their layout.
  std::vector<ValueId> Images(const Node& node) const {
    const OpDef& op = registry_.Get(node.op);
    const int full_rank = FullRank(node);
    std::vector<ValueId> images;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (IsImage(node.outputs[i], PortAt(op.outputs, i), full_rank)) images.push_back(node.outputs[i]);
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!IsImage(node.inputs[i], PortAt(op.inputs, i), full_rank)) continue;
      const Value& input = graph_.value(node.inputs[i]);
      if (!input.producer.valid() || !Flexible(graph_.node(input.producer))) continue;
      const Node& producer = graph_.node(input.producer);
      const Port& port = PortAt(registry_.Get(producer.op).outputs, static_cast<size_t>(input.output_index));
      if (IsImage(node.inputs[i], port, FullRank(producer))) images.push_back(node.inputs[i]);
    }
    return images;
  }

  void Group(NodeId id) {
    const Node& node = graph_.node(id);
    if (!Flexible(node)) return;
    const std::vector<ValueId> images = Images(node);
    for (size_t i = 1; i < images.size(); ++i) groups_.Merge(images[0].index, images[i].index);
    if (images.empty()) return;
    if (registry_.Get(node.op).traits.layout == LayoutRule::kPrefers) groups_.MarkChannelsLast(images[0].index);
  }

  absl::Status Assign(NodeId id) {
    const OpDef& op = registry_.Get(graph_.node(id).op);
    const std::vector<ValueId> images = Flexible(graph_.node(id)) ? Images(graph_.node(id)) : std::vector<ValueId>();
    const bool channels_last = !images.empty() && groups_.channels_last(images[0].index);
    const int full_rank = FullRank(graph_.node(id));
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const ValueId input = graph_.node(id).inputs[i];
      if (!input.valid()) continue;
      const bool image = channels_last && IsImage(input, PortAt(op.inputs, i), full_rank);
      const ValueId converted = InLayout(input, image ? Layout::ChannelsLast() : Layout::Plain(), id, id);
      graph_.node(id).inputs[i] = converted;
    }
    return channels_last ? Retype(id, op) : absl::OkStatus();
  }

  // Inference passes layouts on. It must do so for exactly the outputs that are images.
  absl::Status Retype(NodeId id, const OpDef& op) {
    const Node& node = graph_.node(id);
    NodeTypes types = TypesOf(graph_, node);
    const absl::Status status = InferTypes(op, &types);
    if (!status.ok()) return NodeError(node.loc, node.name, node.op, status);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const bool image = IsImage(node.outputs[i], PortAt(op.outputs, i), FullRank(node));
      SNUG_CHECK_MSG(types.outputs[i].shape == graph_.type(node.outputs[i]).shape &&
                         types.outputs[i].layout.channels_last() == image,
                     absl::StrCat(node.op, " does not pass its layout on to output ", i));
      graph_.value(node.outputs[i]).type.layout = types.outputs[i].layout;
    }
    return absl::OkStatus();
  }

  ValueId InLayout(ValueId value, const Layout& layout, NodeId before, NodeId beside) {
    if (graph_.type(value).layout == layout) return value;
    const auto known = reordered_.find(value);
    if (known != reordered_.end()) return known->second;
    const ValueId result = InsertReorder(graph_, value, layout, before, beside);
    reordered_[value] = result;
    return result;
  }

  Graph& graph_;
  const OpRegistry& registry_;
  Groups groups_;
  std::unordered_map<ValueId, ValueId> reordered_;  // there are only two layouts, so each value has one other form
};

}  // namespace

absl::Status AssignLayouts(Graph& graph, const OpRegistry& registry) { return LayoutPass(graph, registry).Run(); }

}  // namespace snug::core
