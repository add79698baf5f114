// Computes the gradient of a weight that several dense layers read (tied) by one product, as loops do for theirs:
//
//   add_n(dense_grad_weight(x1, dy1), dense_grad_weight(x2, dy2), ...)
//     -> dense_grad_weight(concat(x1, x2, ...), concat(dy1, dy2, ...))
//
// The sum of T gradients has T arrays of the weight's size, each made by a product of few rows; the product of all rows
// has what is stacked, at the speed of a large product. Stacking costs nothing where the rows lie together already, or
// are written where the stack needs them (engine/compile/memory/views.h). It is done where the rows of all terms have
// no more bytes than the gradients that are not made. The biases of these layers follow: their gradients are sums of
// the same rows, and read the stack that is there then.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

class Stacker {
 public:
  Stacker(const OpRegistry& registry, Graph* graph)
      : surroundings_(*graph), builder_(registry, graph), graph_(*graph), position_(graph->node_capacity()) {
    const std::vector<NodeId> order = graph_.ProgramOrder();
    for (size_t i = 0; i < order.size(); ++i) {
      position_[static_cast<size_t>(order[i].index)] = i;
      const Node& node = graph_.node(order[i]);
      if (node.op == "add_n") sums_.push_back(order[i]);
      if (node.op == "concat" && node.options.Get<proto::Concat>().axis() == 0) stacks_.emplace(node.inputs, order[i]);
    }
  }

  absl::Status Run() {
    for (const NodeId sum : sums_) SNUG_RETURN_IF_ERROR(StackProducts(sum));
    for (const NodeId sum : sums_) SNUG_RETURN_IF_ERROR(StackRowSums(sum));
    return absl::OkStatus();
  }

 private:
  // The terms of a sum that one node can make, in the sequence of the sum.
  struct Group {
    std::vector<size_t> terms;  // by their number in the sum
    std::vector<ValueId> x, dy;
  };

  // Returns the node that makes a term for this sum alone, if it is of the op.
  NodeId TermOf(NodeId sum, size_t term, absl::string_view op) const {
    const ValueId value = graph_.node(sum).inputs[term];
    const NodeId producer = graph_.value(value).producer;
    const bool fits = producer.valid() && graph_.node(producer).op == op && surroundings_.SoleReader(value) == sum;
    return fits ? producer : NodeId();
  }

  absl::Status StackProducts(NodeId sum) {
    if (graph_.node(sum).removed) return absl::OkStatus();
    std::vector<Group> groups;
    for (size_t i = 0; i < graph_.node(sum).inputs.size(); ++i) {
      const NodeId term = TermOf(sum, i, "dense_grad_weight");
      if (!term.valid()) continue;
      const ValueId x = graph_.node(term).inputs[0], dy = graph_.node(term).inputs[1];
      auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
        return StackWith(x, other.x[0]) && StackWith(dy, other.dy[0]);
      });
      if (group == groups.end()) group = groups.emplace(groups.end());
      group->terms.push_back(i);
      group->x.push_back(x);
      group->dy.push_back(dy);
    }
    std::vector<std::pair<Group, ValueId>> made;
    for (Group& group : groups) {
      if (group.terms.size() < 2 || !Pays(group, graph_.type(graph_.node(sum).outputs[0]))) continue;
      TakeTheSequenceOfAStack(&group);
      SNUG_ASSIGN_OR_RETURN(const ValueId x, Stack(group.x, sum, "rows"));
      SNUG_ASSIGN_OR_RETURN(const ValueId dy, Stack(group.dy, sum, "gradients"));
      SNUG_ASSIGN_OR_RETURN(const ValueId product, AddBefore(sum, "dense_grad_weight", "product", {x, dy}));
      stacked_.emplace(group.dy, dy);
      std::reverse(group.dy.begin(), group.dy.end());
      stacked_.emplace(group.dy, dy);
      made.emplace_back(std::move(group), product);
    }
    return Replace(sum, made);
  }

  // The rows may stand in any sequence. Those of a loop that reads the last slice first are stacked from the last to
  // the first already.
  void TakeTheSequenceOfAStack(Group* group) const {
    Group reversed = *group;
    std::reverse(reversed.x.begin(), reversed.x.end());
    std::reverse(reversed.dy.begin(), reversed.dy.end());
    const auto stacks = [&](const Group& other) { return stacks_.count(other.x) + stacks_.count(other.dy); };
    if (stacks(reversed) > stacks(*group)) {
      group->x = std::move(reversed.x);
      group->dy = std::move(reversed.dy);
    }
  }

  // Sums of dy over its rows, where all dy of the sum are stacked for the weight's gradient anyway.
  absl::Status StackRowSums(NodeId sum) {
    if (graph_.node(sum).removed) return absl::OkStatus();
    Group group;
    for (size_t i = 0; i < graph_.node(sum).inputs.size(); ++i) {
      const NodeId term = TermOf(sum, i, "reduce_to_shape");
      if (!term.valid()) continue;
      group.terms.push_back(i);
      group.dy.push_back(graph_.node(term).inputs[0]);
    }
    const auto stack = stacked_.find(group.dy);
    if (stack == stacked_.end() || !EndsBefore(stack->second, sum)) return absl::OkStatus();
    const ValueType& bias = graph_.type(graph_.node(sum).outputs[0]);
    const Shape& rows = graph_.type(stack->second).shape;
    if (bias.shape != Shape({rows[rows.rank() - 1]})) return absl::OkStatus();
    const NodeId first = graph_.value(graph_.node(sum).inputs[group.terms[0]]).producer;
    SNUG_ASSIGN_OR_RETURN(const ValueId total,
                          AddBefore(sum, "reduce_to_shape", "rows", {stack->second}, graph_.node(first).options));
    return Replace(sum, {{std::move(group), total}});
  }

  // Tells whether two values can be rows of one.
  bool StackWith(ValueId a, ValueId b) const {
    const ValueType &one = graph_.type(a), &other = graph_.type(b);
    return one.dtype == other.dtype && one.layout == other.layout && one.shape.rank() == other.shape.rank() &&
           one.shape.WithDim(0, 1) == other.shape.WithDim(0, 1);
  }

  bool Pays(const Group& group, const ValueType& weight) const {
    int64_t stacked = 0;
    for (size_t i = 0; i < group.x.size(); ++i) {
      stacked += graph_.type(group.x[i]).size_bytes() + graph_.type(group.dy[i]).size_bytes();
    }
    return stacked <= static_cast<int64_t>(group.terms.size()) * weight.size_bytes();
  }

  // Tells whether a value is there before a node.
  bool EndsBefore(ValueId value, NodeId node) const {
    const NodeId producer = graph_.value(value).producer;
    return !producer.valid() || PositionOf(producer) < PositionOf(node);
  }
  // New nodes stand right before the sum for which they were made.
  size_t PositionOf(NodeId id) const {
    const auto it = made_for_.find(id);
    return position_[static_cast<size_t>((it == made_for_.end() ? id : it->second).index)];
  }

  // Returns the values as one, along axis 0: what they were cut from, a concat that is there already, or a new one.
  absl::StatusOr<ValueId> Stack(const std::vector<ValueId>& parts, NodeId before, absl::string_view what) {
    const NodeId producer = graph_.value(parts[0]).producer;
    if (producer.valid() && graph_.node(producer).op == "split" && graph_.node(producer).outputs == parts &&
        graph_.node(producer).options.Get<proto::Split>().axis() == 0) {
      return graph_.node(producer).inputs[0];
    }
    const auto known = stacks_.find(parts);
    if (known != stacks_.end()) {
      const ValueId whole = graph_.node(known->second).outputs[0];
      if (!EndsBefore(whole, before)) {
        graph_.MoveBefore(known->second, before);
        made_for_[known->second] = before;
      }
      return whole;
    }
    proto::Concat concat;
    concat.set_axis(0);
    SNUG_ASSIGN_OR_RETURN(const ValueId whole, AddBefore(before, "concat", what, parts, proto::MakeOptions(concat)));
    stacks_.emplace(parts, graph_.value(whole).producer);
    return whole;
  }

  absl::StatusOr<ValueId> AddBefore(NodeId sum, absl::string_view op, absl::string_view what,
                                    std::vector<ValueId> inputs, Options options = {}) {
    const Node& of = graph_.node(sum);
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> made, builder_.AddBefore(sum, of,
                                                                              {.name = absl::StrCat(of.name, "/", what),
                                                                               .op = std::string(op),
                                                                               .options = std::move(options),
                                                                               .inputs = std::move(inputs)}));
    made_for_[graph_.value(made[0]).producer] = sum;
    return made[0];
  }

  // Puts what was made in the place of each group's first term, and takes the terms out.
  absl::Status Replace(NodeId sum, const std::vector<std::pair<Group, ValueId>>& made) {
    if (made.empty()) return absl::OkStatus();
    std::vector<ValueId> terms = graph_.node(sum).inputs;
    std::vector<NodeId> gone;
    for (const auto& [group, value] : made) {
      for (const size_t term : group.terms) {
        gone.push_back(graph_.value(terms[term]).producer);
        terms[term] = ValueId();
      }
      terms[group.terms[0]] = value;
    }
    std::erase(terms, ValueId());
    graph_.node(sum).inputs = terms;
    if (terms.size() == 1) {
      graph_.ReplaceUses(graph_.node(sum).outputs[0], terms[0]);
      graph_.RemoveNode(sum);
    }
    for (const NodeId node : gone) graph_.RemoveNode(node);
    return absl::OkStatus();
  }

  const Surroundings surroundings_;  // of the graph at first; terms that are left have the readers they had
  GraphBuilder builder_;
  Graph& graph_;
  std::vector<size_t> position_;  // in program order, by node id
  std::vector<NodeId> sums_;
  std::map<std::vector<ValueId>, NodeId> stacks_;    // concats along axis 0, by their inputs
  std::map<std::vector<ValueId>, ValueId> stacked_;  // what products of this pass read, by what was stacked
  std::unordered_map<NodeId, NodeId> made_for_;
};

}  // namespace

absl::Status StackWeightGradients(Graph& graph, const OpRegistry& registry) { return Stacker(registry, &graph).Run(); }

}  // namespace snug::core
