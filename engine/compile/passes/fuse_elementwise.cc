// Joins elementwise nodes that pass values of one shape to each other into one `fused` node, for CUDA, where it becomes
// one kernel (ops/fused_chain.h). The values between them are never stored. The last one may be a reduction:
// `fused_reduce`.
//
// A group grows from each node upwards. A node whose output the group reads joins it if
//   * nobody outside the group reads that output, and it is not fetched,
//   * it is of the same phase (otherwise work of the forward pass would move into the backward pass, with all that it
//   reads),
//   * no Variable that it reads changes between its place and that of the group's last node, and
//   * the kernel stays within its bounds of inputs and members.
// Whatever may join does, because it always pays: each member saves a launch, and a write and a read for each element;
// nothing is computed or read twice. Compiling a kernel is not weighed against that, because the result is kept on
// disk.
//
// The pass looks at every node once as a root, and once at each candidate of a group, in reverse program order.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/fused_chain.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

// Knows where Variables are changed.
class Mutations {
 public:
  Mutations(const Graph& graph, const OpRegistry& registry, const std::vector<NodeId>& order)
      : graph_(graph), registry_(registry) {
    for (size_t place = 0; place < order.size(); ++place) {
      const Node& node = graph.node(order[place]);
      for (const Alias& alias : registry.Get(node.op).aliases) {
        const auto input = static_cast<size_t>(alias.input);
        if (alias.kind != Alias::Kind::kMutates || input >= node.inputs.size() || !node.inputs[input].valid()) continue;
        places_[VariableUnder(node.inputs[input])].push_back(place);
      }
    }
  }

  // Tells whether the value that a reader finds at place `from` has changed by place `to`.
  bool Between(ValueId value, size_t from, size_t to) const {
    const auto found = places_.find(VariableUnder(value));
    return found != places_.end() && std::any_of(found->second.begin(), found->second.end(),
                                                 [&](size_t place) { return from < place && place < to; });
  }

 private:
  // Returns the Variable whose bytes a value has, or might have once views are chosen.
  VariableId VariableUnder(ValueId value) const {
    for (;;) {
      const Value& v = graph_.value(value);
      if (!v.producer.valid()) return v.variable;
      const Node& producer = graph_.node(v.producer);
      const OpDef& op = registry_.Get(producer.op);
      if (!op.traits.view && op.output_in_input == nullptr) return VariableId();
      if (producer.inputs.empty() || !producer.inputs[0].valid()) return VariableId();
      value = producer.inputs[0];
    }
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  std::unordered_map<VariableId, std::vector<size_t>> places_;
};

struct Group {
  std::vector<NodeId> members;  // in program order
  std::set<ValueId> inputs;
};

class ElementwiseFuser {
 public:
  ElementwiseFuser(Graph& graph, const OpRegistry& registry)
      : graph_(graph),
        registry_(registry),
        builder_(registry, &graph),
        surroundings_(graph),
        order_(graph.ProgramOrder()),
        mutations_(graph, registry, order_),
        place_(graph.node_capacity()),
        taken_(graph.node_capacity(), false) {
    for (size_t i = 0; i < order_.size(); ++i) place_[Index(order_[i])] = i;
  }

  absl::Status Run() {
    std::vector<Group> groups;
    for (auto root = order_.rbegin(); root != order_.rend(); ++root) {
      if (taken_[Index(*root)] || !(MayJoin(*root) || Reduces(*root))) continue;
      Group group = Grow(*root);
      if (group.members.size() < 2) continue;
      for (const NodeId member : group.members) taken_[Index(member)] = true;
      groups.push_back(std::move(group));
    }
    std::reverse(groups.begin(), groups.end());
    for (const Group& group : groups) SNUG_RETURN_IF_ERROR(Fuse(group));
    graph_.ReplaceUses(replaced_);
    return absl::OkStatus();
  }

 private:
  template <class Id>
  static size_t Index(Id id) {
    return static_cast<size_t>(id.index);
  }

  bool MayJoin(NodeId id) const {
    const Node& node = graph_.node(id);
    return registry_.Get(node.op).elementwise.expression != nullptr && node.outputs.size() == 1 &&
           node.inputs.size() <= kMostFusedInputs &&
           std::all_of(node.inputs.begin(), node.inputs.end(), [](ValueId input) { return input.valid(); });
  }

  // Tells whether the node is a reduction, which only the last of a group may be.
  bool Reduces(NodeId id) const {
    const Node& node = graph_.node(id);
    return registry_.Get(node.op).reduction != nullptr && node.inputs.size() == 1;
  }

  Group Grow(NodeId root) const {
    const Node& last = graph_.node(root);
    // This is the type of what the members make.
    const ValueType& made = graph_.type(Reduces(root) ? last.inputs[0] : last.outputs[0]);
    Group group{.members = {root}, .inputs = {last.inputs.begin(), last.inputs.end()}};
    std::set<NodeId> members = {root};
    std::set<size_t> candidates;  // their places; the latest comes first, because its readers have been looked at
    const auto consider = [&](NodeId id) {
      for (const ValueId input : graph_.node(id).inputs) {
        if (const NodeId producer = graph_.value(input).producer; producer.valid()) {
          candidates.insert(place_[Index(producer)]);
        }
      }
    };
    consider(root);
    while (!candidates.empty() && group.members.size() < kMostFusedMembers) {
      const size_t place = *candidates.rbegin();
      candidates.erase(place);
      const NodeId id = order_[place];
      const Node& node = graph_.node(id);
      if (taken_[Index(id)] || !MayJoin(id) || node.phase != last.phase) continue;
      const ValueId value = node.outputs[0];
      const ValueType& type = graph_.type(value);
      if (type.shape != made.shape || !(type.layout == made.layout) || surroundings_.Kept(value)) continue;
      const std::vector<NodeId>& readers = surroundings_.Readers(value);
      if (!std::all_of(readers.begin(), readers.end(), [&](NodeId reader) { return members.contains(reader); }))
        continue;
      if (std::any_of(node.inputs.begin(), node.inputs.end(),
                      [&](ValueId input) { return mutations_.Between(input, place, place_[Index(root)]); })) {
        continue;
      }
      std::set<ValueId> inputs = group.inputs;
      inputs.erase(value);
      inputs.insert(node.inputs.begin(), node.inputs.end());
      if (inputs.size() > kMostFusedInputs) continue;
      group.inputs = std::move(inputs);
      group.members.push_back(id);
      members.insert(id);
      consider(id);
    }
    std::reverse(group.members.begin(), group.members.end());
    return group;
  }

  absl::Status Fuse(const Group& group) {
    const Node last = graph_.node(group.members.back());
    std::vector<ValueId> inputs;
    std::unordered_map<ValueId, int> number;  // numbers of values, as the options use them
    for (const NodeId id : group.members) {
      for (const ValueId input : graph_.node(id).inputs) {
        if (!group.inputs.contains(input) || !number.emplace(input, static_cast<int>(inputs.size())).second) continue;
        inputs.push_back(input);
      }
    }
    std::vector<FusedMemberSpec> members;
    for (const NodeId id : group.members) {
      const Node& node = graph_.node(id);
      FusedMemberSpec& member = members.emplace_back(FusedMemberSpec{&registry_.Get(node.op), node.options, {}});
      for (const ValueId input : node.inputs) member.operands.push_back(number.at(input));
      number.emplace(node.outputs[0], static_cast<int>(inputs.size() + members.size()) - 1);
    }
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> fused,
                          builder_.AddBefore(group.members.back(), last,
                                             {.name = NameOf(group),
                                              .op = Reduces(group.members.back()) ? "fused_reduce" : "fused",
                                              .options = FusedOptions(std::move(members)),
                                              .inputs = std::move(inputs)}));
    const ValueId made = fused[0];
    SNUG_CHECK_MSG(graph_.type(made) == graph_.type(last.outputs[0]), last.name);
    replaced_[last.outputs[0]] = made;
    for (const NodeId id : group.members) graph_.RemoveNode(id);
    return absl::OkStatus();
  }

  // Returns "a+b", "a+b+c", or "a+2 more+d".
  std::string NameOf(const Group& group) const {
    const size_t count = group.members.size();
    const std::string& first = graph_.node(group.members.front()).name;
    const std::string& last = graph_.node(group.members.back()).name;
    if (count == 2) return absl::StrCat(first, "+", last);
    const std::string middle = count == 3 ? graph_.node(group.members[1]).name : absl::StrCat(count - 2, " more");
    return absl::StrCat(first, "+", middle, "+", last);
  }

  Graph& graph_;
  const OpRegistry& registry_;
  GraphBuilder builder_;
  const Surroundings surroundings_;
  const std::vector<NodeId> order_;
  const Mutations mutations_;
  std::vector<size_t> place_;  // by node: its place in order_
  std::vector<bool> taken_;    // whether the node is in a group
  std::unordered_map<ValueId, ValueId> replaced_;
};

}  // namespace

absl::Status FuseElementwise(Graph& graph, const OpRegistry& registry) {
  if (registry.Find("fused") == nullptr) return absl::OkStatus();
  return ElementwiseFuser(graph, registry).Run();
}

}  // namespace snug::core
