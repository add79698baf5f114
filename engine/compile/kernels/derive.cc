#include "engine/compile/kernels/derive.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/memory/contents.h"

namespace snug::core {
namespace {

class Taker {
 public:
  Taker(Graph& graph, const OpRegistry& registry, std::vector<KernelChoice>& kernels)
      : graph_(graph), registry_(registry), kernels_(kernels), derived_(FindDerived(graph, registry)) {}

  Derivation Run() {
    result_.graph.name = absl::StrCat(graph_.name, "/derived");
    const std::vector<NodeId> order = graph_.ProgramOrder();
    if (std::none_of(order.begin(), order.end(), [&](NodeId id) { return IsTaken(id); })) return std::move(result_);
    std::unordered_map<ValueId, ValueId> replaced;
    for (const NodeId id : order) {
      if (IsDerived(id)) Copy(id);
      if (IsTaken(id)) continue;
      for (const ValueId input : graph_.node(id).inputs) Keep(input, replaced);
    }
    for (const Output& output : graph_.outputs) Keep(output.value, replaced);
    graph_.ReplaceUses(replaced);
    std::for_each(order.rbegin(), order.rend(), [&](NodeId id) {
      if (IsTaken(id)) graph_.RemoveNode(id);
    });
    return std::move(result_);
  }

 private:
  bool derived(ValueId value) const { return value.valid() && derived_[static_cast<size_t>(value.index)] != 0; }
  bool IsDerived(NodeId id) const {
    const Node& node = graph_.node(id);
    return !node.outputs.empty() && derived(node.outputs[0]);
  }
  // A view runs nothing: it stands wherever it is read.
  bool IsTaken(NodeId id) const { return IsDerived(id) && !registry_.Get(graph_.node(id).op).traits.view; }

  // The value of the derivation that is `value` here.
  ValueId There(ValueId value) {
    if (!value.valid()) return value;
    if (const auto it = there_.find(value); it != there_.end()) return it->second;
    const Value& here = graph_.value(value);
    SNUG_CHECK(here.variable.valid());
    const VariableId id = result_.graph.AddVariable(graph_.variable(here.variable));
    return there_[value] = result_.graph.variable(id).value;
  }

  void Copy(NodeId id) {
    const Node node = graph_.node(id);
    NodeSpec spec = {.name = node.name,
                     .op = node.op,
                     .options = node.options,
                     .loc = node.loc,
                     .phase = node.phase,
                     .random_id = node.random_id,
                     .subgraphs = node.subgraphs};
    for (const ValueId input : node.inputs) spec.inputs.push_back(There(input));
    for (const ValueId output : node.outputs) spec.output_types.push_back(graph_.type(output));
    const NodeId copy = result_.graph.AddNode(std::move(spec));
    for (size_t i = 0; i < node.outputs.size(); ++i) there_[node.outputs[i]] = result_.graph.node(copy).outputs[i];
    result_.kernels.resize(result_.graph.node_capacity());
    result_.kernels[static_cast<size_t>(copy.index)] = kernels_[static_cast<size_t>(id.index)];
    result_.kernels[static_cast<size_t>(copy.index)].inserted_for = {};
  }

  // Makes a Variable of a value that a node which is taken out computes and another reads.
  void Keep(ValueId value, std::unordered_map<ValueId, ValueId>& replaced) {
    if (!value.valid() || replaced.contains(value)) return;
    const NodeId producer = graph_.value(value).producer;
    if (!producer.valid() || !IsTaken(producer)) return;
    std::string name = absl::StrCat(graph_.value(value).name, "/kept");
    while (graph_.FindVariable(name).valid() || graph_.FindValue(name).valid()) name += "'";
    const VariableId id = graph_.AddVariable(
        {.name = name, .type = graph_.type(value), .role = VariableRole::kDerived, .loc = graph_.node(producer).loc});
    replaced[value] = graph_.variable(id).value;
    result_.graph.outputs.push_back({name, There(value)});
  }

  Graph& graph_;
  const OpRegistry& registry_;
  std::vector<KernelChoice>& kernels_;
  const std::vector<char> derived_;
  std::unordered_map<ValueId, ValueId> there_;
  Derivation result_;
};

}  // namespace

bool HoldsStill(VariableRole role) {
  return role == VariableRole::kParameter || role == VariableRole::kStatistic || role == VariableRole::kConstant;
}

std::vector<char> FindDerived(const Graph& graph, const OpRegistry& registry) {
  std::vector<char> derived(graph.value_capacity(), 0);
  const auto at = [&](ValueId value) -> char& { return derived[static_cast<size_t>(value.index)]; };
  for (const Variable& variable : graph.variables()) at(variable.value) = HoldsStill(variable.role) ? 1 : 0;
  const std::vector<NodeId> order = graph.ProgramOrder();
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].valid() && Mutates(registry.Get(node.op), i)) at(node.inputs[i]) = 0;
    }
  }
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    const Traits& traits = registry.Get(node.op).traits;
    bool all = !traits.random && !traits.side_effect && !node.outputs.empty();
    bool any = false;
    for (const ValueId input : node.inputs) {
      if (!input.valid()) continue;
      any = true;
      all = all && at(input) != 0;
    }
    for (const ValueId output : node.outputs) at(output) = any && all ? 1 : 0;
  }
  return derived;
}

Derivation TakeOutDerived(Graph& graph, const OpRegistry& registry, std::vector<KernelChoice>& kernels) {
  return Taker(graph, registry, kernels).Run();
}

}  // namespace snug::core
