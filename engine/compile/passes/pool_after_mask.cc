// relu's gradient lets through what relu let through, for which it needs relu's output. Where all that comes back to
// that output comes from max pooling, a gradient comes back only to the elements that were largest in a window, and
// these are what pooling gave: so the mask is known from the pooled values, which the next layer keeps in any case. The
// gradient is masked before it is spread over the windows, not after:
//
//   relu_grad(y, max_pool_grad(index, dy))  ->  max_pool_grad(index, relu_grad(pooled, dy))
//
// The bits are the same: all windows whose maximum an element is have its value, and so the same mask. The values
// before pooling, the largest of many networks, are then free as soon as they are pooled. Batch norm computes the mask
// anew from what it keeps (fuse_batch_norm) and gains nothing.
#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

bool IsMask(const std::string& op) { return op == "relu_grad" || op == "relu6_grad"; }

// The node that gave `y`, if it is an activation that stands behind batch norm.
bool IsBehindBatchNorm(const Graph& graph, ValueId y) {
  const NodeId activation = graph.value(y).producer;
  if (!activation.valid() || graph.node(activation).inputs.empty()) return false;
  NodeId below = graph.value(graph.node(activation).inputs[0]).producer;
  if (below.valid() && graph.node(below).op == "add") {
    for (const ValueId term : graph.node(below).inputs) {
      const NodeId node = graph.value(term).producer;
      if (node.valid() && graph.node(node).op == "batch_norm") return true;
    }
  }
  return below.valid() && graph.node(below).op == "batch_norm";
}

// The pooling whose indices these are; invalid unless its input is `x`.
NodeId PoolOf(const Graph& graph, ValueId index, ValueId x) {
  const NodeId pool = graph.value(index).producer;
  if (!pool.valid()) return NodeId();
  const Node& node = graph.node(pool);
  return node.op == "max_pool_indices" && node.inputs[0] == x ? pool : NodeId();
}

}  // namespace

absl::Status PoolAfterMask(Graph& graph, const OpRegistry& registry) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> replaced;
  for (const NodeId id : graph.ProgramOrder()) {
    if (!IsMask(graph.node(id).op)) continue;
    const Node mask = graph.node(id);  // copies, because adding nodes moves them all
    const NodeId producer = graph.value(mask.inputs[1]).producer;
    if (!producer.valid() || graph.node(producer).op != "max_pool_grad") continue;
    const Node spread = graph.node(producer);
    if (surroundings.SoleReader(spread.outputs[0]) != id || surroundings.Kept(mask.outputs[0])) continue;
    const NodeId pool = PoolOf(graph, spread.inputs[0], mask.inputs[0]);
    if (!pool.valid() || IsBehindBatchNorm(graph, mask.inputs[0])) continue;
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> before,
                          builder.AddBefore(id, mask,
                                            {.name = mask.name,
                                             .op = mask.op,
                                             .options = mask.options,
                                             .inputs = {graph.node(pool).outputs[0], spread.inputs[1]}}));
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> after,
                          builder.AddBefore(id, spread,
                                            {.name = spread.name,
                                             .op = spread.op,
                                             .options = spread.options,
                                             .inputs = {spread.inputs[0], before[0]}}));
    replaced[mask.outputs[0]] = after[0];
    graph.RemoveNode(id);
    graph.RemoveNode(producer);
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug::core
