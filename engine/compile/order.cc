#include "engine/compile/order.h"

#include <algorithm>

namespace snug {
namespace {

bool Mutates(const OpDef& op, size_t input) {
  return std::any_of(op.aliases.begin(), op.aliases.end(), [input](const Alias& alias) {
    return alias.kind == Alias::Kind::kMutates && static_cast<size_t>(alias.input) == input;
  });
}

}  // namespace

std::vector<std::vector<NodeId>> Dependencies(const Graph& graph, const OpRegistry& registry) {
  std::vector<std::vector<NodeId>> dependencies(graph.node_capacity());
  struct VariableUse {
    NodeId mutation;            // the last one so far
    std::vector<NodeId> reads;  // since then
  };
  std::vector<VariableUse> uses(graph.variables().size());
  // A view of a Variable reads it as long as it is read itself.
  std::vector<VariableId> root(graph.value_capacity());
  for (const Variable& v : graph.variables()) root[static_cast<size_t>(v.value.index)] = graph.value(v.value).variable;

  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    const OpDef& op = registry.Get(node.op);
    std::vector<NodeId>& before = dependencies[static_cast<size_t>(id.index)];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (!input.valid()) continue;
      if (graph.value(input).producer.valid()) before.push_back(graph.value(input).producer);
      const VariableId variable = root[static_cast<size_t>(input.index)];
      if (!variable.valid()) continue;
      VariableUse& use = uses[static_cast<size_t>(variable.index)];
      if (use.mutation.valid()) before.push_back(use.mutation);
      if (Mutates(op, i)) {
        before.insert(before.end(), use.reads.begin(), use.reads.end());
        use = {.mutation = id, .reads = {}};
      } else {
        use.reads.push_back(id);
      }
      if (op.traits.view && i == 0) {
        for (const ValueId output : node.outputs) root[static_cast<size_t>(output.index)] = variable;
      }
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    before.erase(std::remove(before.begin(), before.end(), id), before.end());
  }
  return dependencies;
}

Order ChooseOrder(const Graph& graph, const OpRegistry& registry) {
  const auto dependencies = Dependencies(graph, registry);
  std::vector<int> missing(graph.node_capacity(), 0);
  std::vector<std::vector<NodeId>> waiting_updates(graph.node_capacity());  // update nodes that wait for this one
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    if (graph.node(id).phase != Phase::kUpdate) continue;
    for (const NodeId before : dependencies[static_cast<size_t>(id.index)]) {
      waiting_updates[static_cast<size_t>(before.index)].push_back(id);
      ++missing[static_cast<size_t>(id.index)];
    }
  }
  Order order;
  order.reserve(graph.num_nodes());
  std::vector<NodeId> ready;  // a stack: what became ready last runs first
  const auto emit = [&](NodeId start) {
    ready.push_back(start);
    while (!ready.empty()) {
      const NodeId id = ready.back();
      ready.pop_back();
      order.push_back(id);
      const auto& updates = waiting_updates[static_cast<size_t>(id.index)];
      for (auto it = updates.rbegin(); it != updates.rend(); ++it) {
        if (--missing[static_cast<size_t>(it->index)] == 0) ready.push_back(*it);
      }
    }
  };
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const bool is_update = graph.node(id).phase == Phase::kUpdate;
    if (!is_update || dependencies[static_cast<size_t>(id.index)].empty()) emit(id);
  }
  return order;
}

}  // namespace snug
