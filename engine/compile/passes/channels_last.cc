// Chooses layouts: convolution, pooling and batch norm run faster on channels-last images, and elementwise ops take any
// layout. Values that such nodes pass to each other form groups (union-find). A group that a node of the first kind
// touches becomes channels-last as a whole. Reorders are inserted only where the group meets graph inputs, Variables,
// outputs, and ops that only know plain values. Groups go through the ports of loops, so that rounds pass images to
// each other and to the graph around them as they are.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/control/loop_ports.h"
#include "engine/compile/kernels/conversions.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "proto/loops.pb.h"

namespace snug::core {
namespace {

class Groups {
 public:
  // Adds so many values, each in a group of its own, and returns the number of the first.
  int Add(size_t count) {
    const size_t first = of_.size();
    of_.resize(first + count);
    for (size_t i = first; i < of_.size(); ++i) of_[i].parent = static_cast<int>(i);
    return static_cast<int>(first);
  }
  void Merge(int a, int b) {
    Group& from = Root(b);
    Group& to = Root(a);
    if (&from == &to) return;
    from.parent = to.parent;
    to.images = to.images || from.images;
    to.channels_last = to.channels_last || from.channels_last;
  }
  // Nodes that take any layout pass it on.
  void MarkImages(int i) { Root(i).images = true; }
  void MarkChannelsLast(int i) { Root(i).channels_last = true; }
  bool images(int i) { return Root(i).images; }
  bool channels_last(int i) { return Root(i).channels_last; }

 private:
  struct Group {
    int parent = 0;
    bool images = false, channels_last = false;
  };
  Group& Root(int i) {
    while (of_[static_cast<size_t>(i)].parent != i) {
      int& parent = of_[static_cast<size_t>(i)].parent;
      i = parent = of_[static_cast<size_t>(parent)].parent;
    }
    return of_[static_cast<size_t>(i)];
  }

  std::vector<Group> of_;
};

bool MayBeImage(const ValueType& type) { return type.shape.rank() >= 3 && type.shape.rank() <= 5; }

// Of one graph. The bodies of its loops have passes of their own, and groups in common with it.
class LayoutPass {
 public:
  LayoutPass(Graph& graph, const OpRegistry& registry, Groups& groups)
      : graph_(graph),
        registry_(registry),
        groups_(groups),
        first_(groups.Add(graph.value_capacity())),
        passes_on_(graph.value_capacity()) {}

  // Of an input, or what a loop makes: its layout becomes that of its group.
  void LetPass(ValueId value) { passes_on_[static_cast<size_t>(value.index)] = true; }
  // Whether the layout of the value is that of its group.
  bool Follows(ValueId id) const {
    if (passes_on_[static_cast<size_t>(id.index)]) return true;
    const Value& value = graph_.value(id);
    if (!value.producer.valid() || !Flexible(graph_.node(value.producer))) return false;
    const Node& producer = graph_.node(value.producer);
    const Port& port = PortAt(registry_.Get(producer.op).outputs, static_cast<size_t>(value.output_index));
    return IsImage(id, port, FullRank(producer));
  }
  int GroupOf(ValueId value) const { return first_ + value.index; }

  void FindGroups() {
    for (const NodeId id : graph_.ProgramOrder()) {
      if (graph_.node(id).op == "loop") {
        GroupLoop(id);
      } else {
        Group(id);
      }
    }
  }

  // The outputs are plain where nothing else is said of them.
  absl::Status AssignAll(const std::map<int, Layout>& of_outputs) {
    for (const NodeId id : graph_.ProgramOrder()) {
      SNUG_RETURN_IF_ERROR(graph_.node(id).op == "loop" ? AssignLoop(id) : Assign(id));
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const ValueId output = graph_.outputs[i].value;
      graph_.outputs[i].value =
          InLayout(output, LayoutOf(of_outputs, static_cast<int>(i)), NodeId(), graph_.value(output).producer);
    }
    return absl::OkStatus();
  }

 private:
  struct Body {
    std::shared_ptr<Graph> graph;
    std::unique_ptr<LayoutPass> pass;
    std::vector<SharedPorts> images;  // those of the loop that may be for images

    ValueId ValueOf(const SharedPorts& ports) const {
      return ports.input >= 0 ? graph->inputs()[static_cast<size_t>(ports.input)]
                              : graph->outputs[static_cast<size_t>(ports.output)].value;
    }
  };

  static Layout LayoutOf(const std::map<int, Layout>& layouts, int port) {
    const auto found = layouts.find(port);
    return found == layouts.end() ? Layout::Plain() : found->second;
  }

  // The group that says in which layout these ports are.
  int GroupOf(const SharedPorts& ports, const Body& body) const {
    return ports.input >= 0 ? body.pass->GroupOf(body.ValueOf(ports)) : GroupOf(ports.stash);
  }

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

  // Returns the values of a flexible node that share one layout. Of its inputs it only counts those whose layout may
  // change where they are made; others keep it.
  std::vector<ValueId> Images(const Node& node) const {
    const OpDef& op = registry_.Get(node.op);
    const int full_rank = FullRank(node);
    std::vector<ValueId> images;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (IsImage(node.outputs[i], PortAt(op.outputs, i), full_rank)) images.push_back(node.outputs[i]);
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (IsImage(node.inputs[i], PortAt(op.inputs, i), full_rank) && Follows(node.inputs[i])) {
        images.push_back(node.inputs[i]);
      }
    }
    return images;
  }

  void Group(NodeId id) {
    const Node& node = graph_.node(id);
    if (!Flexible(node)) return;
    const std::vector<ValueId> images = Images(node);
    if (images.empty()) return;
    for (const ValueId image : images) groups_.Merge(GroupOf(images[0]), GroupOf(image));
    groups_.MarkImages(GroupOf(images[0]));
    if (registry_.Get(node.op).traits.layout == LayoutRule::kPrefers) groups_.MarkChannelsLast(GroupOf(images[0]));
  }

  // Lets groups through the loop's ports, but not where no node of the body would pass the layout on: there each round
  // would reorder what its nodes want plain.
  void GroupLoop(NodeId id) {
    Body& body = bodies_[id];
    body.graph = std::make_shared<Graph>(*graph_.node(id).subgraphs[0]);
    body.pass = std::make_unique<LayoutPass>(*body.graph, registry_, groups_);
    for (const SharedPorts& ports : SharedPortsOf(graph_, id)) {
      if (MayBeImage(body.graph->type(body.ValueOf(ports)))) body.images.push_back(ports);
    }
    for (const SharedPorts& ports : body.images) {
      if (ports.input >= 0 && !IsReorderedInside(id, ports)) body.pass->LetPass(body.ValueOf(ports));
    }
    body.pass->FindGroups();
    for (const SharedPorts& ports : body.images) {
      if (ports.stash.valid()) groups_.Merge(GroupOf(ports, body), GroupOf(ports.stash));
      if (ports.output < 0) continue;
      const ValueId output = body.graph->outputs[static_cast<size_t>(ports.output)].value;
      if (body.pass->Follows(output)) groups_.Merge(GroupOf(ports, body), body.pass->GroupOf(output));
    }
    const Node& node = graph_.node(id);
    for (const SharedPorts& ports : body.images) {
      const int group = GroupOf(ports, body);
      if (!groups_.images(group)) continue;
      if (ports.feed >= 0) {
        const ValueId feed = node.inputs[static_cast<size_t>(ports.feed)];
        if (Follows(feed)) groups_.Merge(group, GroupOf(feed));
      }
      if (ports.result >= 0) {
        const ValueId result = node.outputs[static_cast<size_t>(ports.result)];
        groups_.Merge(group, GroupOf(result));
        LetPass(result);
      }
    }
  }

  // What a branch captures is not brought into another layout before it, as its body may not run.
  bool IsReorderedInside(NodeId loop, const SharedPorts& ports) const {
    const Node& node = graph_.node(loop);
    const auto& options = node.options.Get<proto::NormalLoop>();
    const bool captured = ports.feed >= 0 && ports.output < 0 && !ports.stash.valid();
    return captured && IsBodyOfBranch(options) && !Follows(node.inputs[static_cast<size_t>(ports.feed)]);
  }

  absl::Status AssignLoop(NodeId id) {
    Body& body = bodies_.at(id);
    std::map<int, Layout> of_feeds, of_outputs;
    for (const SharedPorts& ports : body.images) {
      const Layout layout = groups_.channels_last(GroupOf(ports, body)) ? Layout::ChannelsLast() : Layout::Plain();
      if (ports.input >= 0) body.graph->value(body.ValueOf(ports)).type.layout = layout;
      if (ports.feed >= 0) of_feeds[ports.feed] = layout;
      if (ports.output >= 0) of_outputs[ports.output] = layout;
      if (ports.result >= 0) {
        graph_.value(graph_.node(id).outputs[static_cast<size_t>(ports.result)]).type.layout = layout;
      }
    }
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const ValueId input = graph_.node(id).inputs[i];
      if (!input.valid()) continue;
      const ValueId converted = InLayout(input, LayoutOf(of_feeds, static_cast<int>(i)), id, id);
      graph_.node(id).inputs[i] = converted;
    }
    SNUG_RETURN_IF_ERROR(body.pass->AssignAll(of_outputs));
    graph_.node(id).subgraphs[0] = body.graph;
    return absl::OkStatus();
  }

  absl::Status Assign(NodeId id) {
    const OpDef& op = registry_.Get(graph_.node(id).op);
    const std::vector<ValueId> images = Flexible(graph_.node(id)) ? Images(graph_.node(id)) : std::vector<ValueId>();
    const bool channels_last = !images.empty() && groups_.channels_last(GroupOf(images[0]));
    const int full_rank = FullRank(graph_.node(id));
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const ValueId input = graph_.node(id).inputs[i];
      if (!input.valid()) continue;
      const bool image = channels_last && IsImage(input, PortAt(op.inputs, i), full_rank);
      const ValueId converted = InLayout(input, image ? Layout::ChannelsLast() : Layout::Plain(), id, id);
      graph_.node(id).inputs[i] = converted;
    }
    // A Variable that the node changes is to be reordered anew by who reads it after that.
    for (const Alias& alias : op.aliases) {
      if (alias.kind == Alias::Kind::kMutates)
        reordered_.erase(graph_.node(id).inputs[static_cast<size_t>(alias.input)]);
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
  Groups& groups_;
  const int first_;              // the group's number of value 0
  std::vector<bool> passes_on_;  // by value: a port whose layout is that of its group
  std::unordered_map<NodeId, Body> bodies_;
  std::unordered_map<ValueId, ValueId> reordered_;  // there are only two layouts, so each value has one other form
};

}  // namespace

absl::Status AssignLayouts(Graph& graph, const OpRegistry& registry) {
  Groups groups;
  LayoutPass pass(graph, registry, groups);
  pass.FindGroups();
  return pass.AssignAll({});
}

}  // namespace snug::core
