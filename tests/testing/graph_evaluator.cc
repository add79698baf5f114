#include "tests/testing/graph_evaluator.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "ops/graph_builder.h"

namespace snug::core::test {
namespace {

// Gives the inputs of one node layouts that its op takes.
void HarmonizeLayouts(const OpDef& op, const NodeTypes& types, std::vector<Tensor>* inputs) {
  int full_rank = 0;
  bool any_channels_last = false;
  for (size_t i = 0; i < inputs->size(); ++i) {
    if (types.present[i]) full_rank = std::max(full_rank, types.inputs[i].shape.rank());
  }
  const auto follows = [&](size_t i) {
    const Port& port = op.inputs[std::min(i, op.inputs.size() - 1)];
    return types.present[i] && types.inputs[i].shape.rank() == full_rank && !port.plain_layout;
  };
  for (size_t i = 0; i < inputs->size(); ++i) {
    any_channels_last |= follows(i) && (*inputs)[i].type.layout.channels_last();
  }
  const bool channels_last = any_channels_last && op.traits.layout != LayoutRule::kPlain;
  for (size_t i = 0; i < inputs->size(); ++i) {
    if (!types.present[i]) continue;
    (*inputs)[i] = WithLayout((*inputs)[i], channels_last && follows(i) ? Layout::ChannelsLast() : Layout::Plain());
  }
}

}  // namespace

absl::Status EvaluateNode(const OpRegistry& registry, const Graph& graph, NodeId id, const EvaluateOptions& options,
                          std::vector<Tensor>* values) {
  const auto at = [values](ValueId value) -> Tensor& { return (*values)[static_cast<size_t>(value.index)]; };
  const Node& node = graph.node(id);
  const OpDef& op = registry.Get(node.op);
  NodeTypes types = TypesOf(graph, node);
  std::vector<Tensor> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(input.valid() ? at(input) : Tensor());
  HarmonizeLayouts(op, types, &inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (types.present[i]) types.inputs[i] = inputs[i].type;
  }
  const std::string where = absl::StrCat("node \"", node.name, "\" (", node.op, ")");
  SNUG_RETURN_IF_ERROR(Annotate(InferTypes(op, &types), where));
  absl::StatusOr<NodeRunner> runner =
      NodeRunner::Make(registry, op, std::move(types), options.choice, options.threads, node.random_id);
  if (!runner.ok()) return Annotate(runner.status(), where);
  absl::StatusOr<NodeRun> run = runner->Run(inputs);
  if (!run.ok()) return Annotate(run.status(), where);
  for (size_t o = 0; o < node.outputs.size(); ++o) at(node.outputs[o]) = std::move(run->outputs[o]);
  for (auto& [i, tensor] : run->mutated) at(node.inputs[static_cast<size_t>(i)]) = std::move(tensor);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> EvaluateGraph(const OpRegistry& registry, const Graph& graph,
                                                  const std::map<ValueId, Tensor>& feeds,
                                                  const EvaluateOptions& options) {
  std::vector<Tensor> values(graph.value_capacity());
  for (const auto& [id, tensor] : feeds) values[static_cast<size_t>(id.index)] = tensor;
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    SNUG_RETURN_IF_ERROR(EvaluateNode(registry, graph, id, options, &values));
  }
  return values;
}

}  // namespace snug::core::test
