// Computes the gradient of a dense layer's bias, which sums dy over its rows, where the gradient of the weights reads
// dy in any case: cuBLASLt does so in one sweep.
#include <absl/strings/str_cat.h>

#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

// Returns the node that sums dy over all axes but the last; invalid if there is none.
NodeId SumOf(const Graph& graph, const Surroundings& surroundings, ValueId dy) {
  const Shape& shape = graph.type(dy).shape;
  for (const NodeId reader : surroundings.Readers(dy)) {
    const Node& node = graph.node(reader);
    if (node.op == "reduce_to_shape" && graph.type(node.outputs[0]).shape == Shape({shape[shape.rank() - 1]})) {
      return reader;
    }
  }
  return NodeId();
}

}  // namespace

absl::Status SumBiasGradient(Graph& graph, const OpRegistry& registry) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  const std::vector<NodeId> order = graph.ProgramOrder();
  std::unordered_map<NodeId, size_t> position;
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  std::unordered_map<ValueId, ValueId> replaced;
  for (const NodeId id : order) {
    if (graph.node(id).op != "dense_grad_weight") continue;
    const Node weight = graph.node(id);
    const NodeId sum = SumOf(graph, surroundings, weight.inputs[1]);
    if (!sum.valid() || replaced.count(graph.node(sum).outputs[0]) > 0) continue;
    // Both operands are there before the first of the two, and nobody reads a result before it.
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> both,
                          builder.AddBefore(position[sum] < position[id] ? sum : id, weight,
                                            {.name = absl::StrCat(weight.name, "+", graph.node(sum).name),
                                             .op = "dense_grad_weight_bias",
                                             .inputs = weight.inputs}));
    replaced[weight.outputs[0]] = both[0];
    replaced[graph.node(sum).outputs[0]] = both[1];
    graph.RemoveNode(id);
    graph.RemoveNode(sum);
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug::core
