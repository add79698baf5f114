#include "engine/graph/graph.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"

namespace snug::core {

std::string Graph::UniqueName(std::string wanted) {
  if (node_names_.emplace(wanted, 1).second) return wanted;
  // A copy of "n#2" is one more "n".
  const size_t number = wanted.find_last_not_of("0123456789");
  if (number != std::string::npos && number + 1 < wanted.size() && wanted[number] == '#') {
    if (std::string first = wanted.substr(0, number); node_names_.contains(first)) wanted = std::move(first);
  }
  std::string name;
  do {
    name = absl::StrCat(wanted, "#", ++node_names_[wanted]);
  } while (!node_names_.emplace(name, 1).second);
  return name;
}

ValueId Graph::AddInput(std::string value_name, ValueType type, int64_t max_value) {
  const ValueId id{static_cast<int32_t>(values_.size())};
  values_by_name_[value_name] = id;
  node_names_[value_name] = 1;
  values_.push_back({.name = std::move(value_name), .type = std::move(type), .is_input = true, .max_value = max_value});
  inputs_.push_back(id);
  return id;
}

VariableId Graph::AddVariable(Variable variable) {
  const VariableId id{static_cast<int32_t>(variables_.size())};
  SNUG_CHECK_MSG(!variables_by_name_.contains(variable.name), variable.name);
  variable.value = ValueId{static_cast<int32_t>(values_.size())};
  values_.push_back({.name = variable.name, .type = variable.type, .variable = id});
  values_by_name_.emplace(variable.name, variable.value);
  variables_by_name_[variable.name] = id;
  variables_.push_back(std::move(variable));
  return id;
}

NodeId Graph::AddNode(NodeSpec spec) {
  const NodeId id{static_cast<int32_t>(nodes_.size())};
  Node node{.name = UniqueName(std::move(spec.name)),
            .op = std::move(spec.op),
            .options = std::move(spec.options),
            .inputs = std::move(spec.inputs),
            .loc = std::move(spec.loc),
            .phase = spec.phase,
            .random_id = spec.random_id,
            .forward = spec.forward,
            .subgraphs = std::move(spec.subgraphs)};
  for (size_t i = 0; i < spec.output_types.size(); ++i) {
    const ValueId output{static_cast<int32_t>(values_.size())};
    std::string value_name = i == 0 ? node.name : absl::StrCat(node.name, ":", i);
    values_by_name_[value_name] = output;
    values_.push_back({.name = std::move(value_name),
                       .type = std::move(spec.output_types[i]),
                       .producer = id,
                       .output_index = static_cast<int>(i)});
    node.outputs.push_back(output);
  }
  nodes_.push_back(std::move(node));
  Link(id, insertion_point_);
  ++live_nodes_;
  return id;
}

void Graph::Link(NodeId id, NodeId before) {
  Node& n = node(id);
  n.next = before;
  n.previous = before.valid() ? node(before).previous : last_;
  (n.previous.valid() ? node(n.previous).next : first_) = id;
  (before.valid() ? node(before).previous : last_) = id;
}

void Graph::Unlink(NodeId id) {
  Node& n = node(id);
  (n.previous.valid() ? node(n.previous).next : first_) = n.next;
  (n.next.valid() ? node(n.next).previous : last_) = n.previous;
  n.previous = n.next = NodeId();
}

void Graph::RemoveNode(NodeId id) {
  SNUG_CHECK(!node(id).removed);
  if (insertion_point_ == id) insertion_point_ = node(id).next;
  Unlink(id);
  node(id).removed = true;
  --live_nodes_;
}

void Graph::SwapNames(NodeId a, NodeId b) {
  for (const NodeId id : {a, b}) {
    for (const ValueId output : node(id).outputs) values_by_name_.erase(value(output).name);
  }
  std::swap(node(a).name, node(b).name);
  for (const NodeId id : {a, b}) {
    const Node& named = node(id);
    for (const ValueId output : named.outputs) {
      Value& value = values_[static_cast<size_t>(output.index)];
      value.name = value.output_index == 0 ? named.name : absl::StrCat(named.name, ":", value.output_index);
      values_by_name_[value.name] = output;
    }
  }
}

void Graph::MoveBefore(NodeId id, NodeId before) {
  if (id == before) return;
  Unlink(id);
  Link(id, before);
}

namespace {

// Visits the inputs of `from` and of the nodes behind it, and what is wanted of the graph.
template <class Visit>
void ForEachUse(Graph& graph, NodeId from, const Visit& visit) {
  for (NodeId id = from; id.valid(); id = graph.node(id).next) {
    for (ValueId& input : graph.node(id).inputs) visit(input);
  }
  for (Output& output : graph.outputs) visit(output.value);
  for (ValueId& objective : graph.objectives) visit(objective);
}

}  // namespace

void Graph::ReplaceUses(ValueId from, ValueId to) {
  const auto replace = [from, to](ValueId& id) {
    if (id == from) id = to;
  };
  const NodeId producer = value(from).producer;  // nothing before it reads what it makes
  ForEachUse(*this, producer.valid() ? producer : first_, replace);
}

void Graph::ReplaceUses(const std::unordered_map<ValueId, ValueId>& map) {
  const auto replace = [&map](ValueId& id) {
    for (auto it = map.find(id); it != map.end(); it = map.find(id)) id = it->second;
  };
  ForEachUse(*this, first_, replace);
}

std::vector<NodeId> Graph::ProgramOrder() const {
  std::vector<NodeId> order;
  order.reserve(live_nodes_);
  for (NodeId id = first_; id.valid(); id = node(id).next) order.push_back(id);
  return order;
}

ValueId Graph::FindValue(absl::string_view value_name) const {
  const auto it = values_by_name_.find(std::string(value_name));
  return it == values_by_name_.end() ? ValueId() : it->second;
}

VariableId Graph::FindVariable(absl::string_view variable_name) const {
  const auto it = variables_by_name_.find(std::string(variable_name));
  return it == variables_by_name_.end() ? VariableId() : it->second;
}

std::vector<std::vector<NodeId>> ReadersOf(const Graph& graph) {
  std::vector<std::vector<NodeId>> readers(graph.value_capacity());
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    for (const ValueId input : graph.node(id).inputs) {
      if (input.valid()) readers[static_cast<size_t>(input.index)].push_back(id);
    }
  }
  return readers;
}

}  // namespace snug::core
