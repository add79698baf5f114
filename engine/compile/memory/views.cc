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

// Finds parts of values that may be written over: whoever reads such a part is the only one, and so is the view that
// cuts it off what that lies in.
class PartFinder {
 public:
  explicit PartFinder(const Graph& graph)
      : graph_(graph), reads_(graph.value_capacity(), 0), parts_of_(graph.value_capacity()) {
    for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
      for (const ValueId input : graph.node(id).inputs) {
        if (input.valid()) ++reads_[Index(input)];
      }
    }
    for (const Output& output : graph.outputs) ++reads_[Index(output.value)];
    for (const ValueId objective : graph.objectives) ++reads_[Index(objective)];
  }

  // Nodes come in program order: what is asked of one is told by those before it.
  void AddView(const PossibleViews::View& view) {
    if (!view.always && view.in_input.empty()) return;
    for (const ValueId output : graph_.node(view.node).outputs) {
      parts_of_[Index(output)] = {.is_view = true, .cuts = view.always ? NodeId() : view.node};
    }
  }
  void AddOver(ValueId output, NodeId cuts) { parts_of_[Index(output)] = {.cuts = cuts}; }

  // The view that cuts off the part that the value is, or that it is written over; invalid: the value may not be
  // written over as a part.
  NodeId PartOf(ValueId value) const {
    NodeId cuts;
    while (reads_[Index(value)] == 1 && graph_.value(value).producer.valid()) {
      const Origin& origin = parts_of_[Index(value)];
      if (!cuts.valid()) cuts = origin.cuts;
      if (!origin.is_view) return cuts;
      value = graph_.node(graph_.value(value).producer).inputs[0];
    }
    return NodeId();
  }

 private:
  struct Origin {
    bool is_view = false;  // of its producer's first input
    NodeId cuts;
  };

  template <class Id>
  static size_t Index(Id id) {
    return static_cast<size_t>(id.index);
  }

  const Graph& graph_;
  std::vector<int> reads_;        // by value id; what the graph puts out counts, too
  std::vector<Origin> parts_of_;  // by value id
};

// Marks the outputs of the graph and what they are other shapes of: they are read after the last node, and may have to
// lie where the caller says.
std::vector<char> PutOut(const Graph& graph, const OpRegistry& registry) {
  std::vector<char> put_out(graph.value_capacity(), 0);
  for (const Output& output : graph.outputs) {
    ValueId value = output.value;
    put_out[static_cast<size_t>(value.index)] = 1;
    for (NodeId id = graph.value(value).producer; id.valid() && registry.Get(graph.node(id).op).traits.view;
         id = graph.value(value).producer) {
      value = graph.node(id).inputs[0];
      put_out[static_cast<size_t>(value.index)] = 1;
    }
  }
  return put_out;
}

// Adds the outputs of a node that may be written over parts.
void FindOverParts(const Graph& graph, const OpDef& op, const std::vector<char>& put_out, PartFinder& parts,
                   PossibleViews::View& view) {
  const Node& node = graph.node(view.node);
  for (const Alias& alias : op.aliases) {
    if (alias.kind != Alias::Kind::kMayShare) continue;
    const auto i = static_cast<size_t>(alias.input);
    if (i >= node.inputs.size() || !node.inputs[i].valid()) continue;
    const ValueId input = node.inputs[i], output = node.outputs[static_cast<size_t>(alias.output)];
    if (!(graph.type(input) == graph.type(output)) || put_out[static_cast<size_t>(output.index)] != 0) continue;
    const bool taken = std::any_of(view.over.begin(), view.over.end(), [&](const PossibleViews::OverPart& other) {
      return other.output == alias.output || other.input == alias.input;
    });
    const NodeId cuts = taken ? NodeId() : parts.PartOf(input);
    if (!cuts.valid()) continue;
    view.over.push_back({alias.output, alias.input, cuts});
    parts.AddOver(output, cuts);
  }
}

}  // namespace

PossibleViews::PossibleViews(const Graph& graph, const OpRegistry& registry, int64_t alignment) : graph_(graph) {
  PartFinder parts(graph);
  const std::vector<char> put_out = PutOut(graph, registry);
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    const OpDef& op = registry.Get(node.op);
    View view{.node = id,
              .always = op.traits.view,
              .in_input = OffsetsInInput(graph, node, op, alignment),
              .in_output = OffsetsInOutput(graph, node, op, alignment)};
    view.optional = !view.in_input.empty() || !view.in_output.empty();
    if (!view.in_output.empty() && !MayLieInOutput(graph, node)) view.in_output.clear();
    view.put_out = !view.in_output.empty() && put_out[static_cast<size_t>(node.outputs[0].index)] != 0;
    if (view.always || view.optional) {
      parts.AddView(view);
    } else {
      FindOverParts(graph, op, put_out, parts, view);
    }
    if (view.always || view.optional || !view.over.empty()) views_.push_back(std::move(view));
  }
}

bool PossibleViews::AnyOverParts() const {
  return std::any_of(views_.begin(), views_.end(), [](const View& view) { return !view.over.empty(); });
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
  for (const View& view : views_) copied[static_cast<size_t>(view.node.index)] = view.always ? 0 : 1;
  return copied;
}

Views::Views(const PossibleViews& possible, const std::vector<char>& copied)
    : graph_(possible.graph()),
      is_view_(graph_.node_capacity(), 0),
      overwritten_(graph_.value_capacity(), 0),
      within_(graph_.value_capacity()) {
  const auto index = [](NodeId id) { return static_cast<size_t>(id.index); };
  const std::vector<PossibleViews::View>& views = possible.views();
  for (const PossibleViews::View& view : views) {
    const Node& node = graph_.node(view.node);
    if (view.always) {
      for (const ValueId output : node.outputs) within(output) = {node.inputs[0], 0};
      is_view_[index(view.node)] = 1;
    } else if (copied[index(view.node)] == 0) {
      is_view_[index(view.node)] = LieInInput(node, view.in_input) ? 1 : 0;
      for (const PossibleViews::OverPart& over : view.over) WriteOver(node, over);
    }
  }
  // Goes from the last node to the first: a value that two nodes join then lies in the larger result.
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    const Node& node = graph_.node(view->node);
    if (copied[index(view->node)] != 0 || view->in_output.empty()) continue;
    if (LieInOutput(node, view->in_output) || (!view->put_out && LieWhereInputsAre(node, view->in_output))) {
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

// What lies on all bytes of another value, which need not be kept, is left to the planner.
void Views::WriteOver(const Node& node, const PossibleViews::OverPart& over) {
  const ValueId part = node.inputs[static_cast<size_t>(over.input)];
  const ValueId root = RootOf(part);
  if (graph_.type(root).size_bytes() == graph_.type(part).size_bytes()) return;
  within(node.outputs[static_cast<size_t>(over.output)]) = {part, 0};
  overwritten_[static_cast<size_t>(root.index)] = 1;
}

// None of the inputs may lie in another value already. Nor may parts of the whole be written over: who reads the inputs
// may come later.
bool Views::LieInOutput(const Node& node, const std::vector<int64_t>& offsets) {
  if (overwritten_[static_cast<size_t>(RootOf(node.outputs[0]).index)] != 0) return false;
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (within(node.inputs[i]).in.valid()) return false;
  }
  for (size_t i = 0; i < offsets.size(); ++i) within(node.inputs[i]) = {node.outputs[0], offsets[i]};
  return !offsets.empty();
}

// All inputs lie in one value already, as the whole wants them, because they were written over its parts.
bool Views::LieWhereInputsAre(const Node& node, const std::vector<int64_t>& offsets) {
  const ValueId whole = node.outputs[0], root = RootOf(node.inputs[0]);
  const int64_t begin = OffsetOf(node.inputs[0]) - offsets[0];
  if (within(whole).in.valid() || overwritten_[static_cast<size_t>(whole.index)] != 0 || begin < 0 ||
      overwritten_[static_cast<size_t>(root.index)] == 0) {
    return false;
  }
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (RootOf(node.inputs[i]) != root || OffsetOf(node.inputs[i]) != begin + offsets[i]) return false;
  }
  within(whole) = {root, begin};
  return true;
}

}  // namespace snug::core
