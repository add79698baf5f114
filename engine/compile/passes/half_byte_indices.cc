// The indices that max pooling keeps for its gradient are numbers within a window, which mostly has 4 or 9 elements, so
// that two of them fit in a byte:
//
//   y, index = max_pool_indices(x)      ->  y, index = max_pool_half_bytes(x)
//   dx = max_pool_grad(index, dy)       ->  dx = max_pool_half_bytes_grad(index, dy)
//
// The bits of y and dx are the same. It is done where channels lie side by side in whole groups, so that the kernels
// join their indices as they write them, and where all readers of the indices are such gradients: those that a rolled
// loop stashes stay as they are. It is an option because the gradient takes somewhat longer (docs/memory_tables.md).
#include <absl/algorithm/container.h>

#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

// Says whether nothing but gradients of pooling reads these indices.
bool AreForGradients(const Graph& graph, const Surroundings& surroundings, ValueId index) {
  return !surroundings.Kept(index) && absl::c_all_of(surroundings.Readers(index), [&](NodeId reader) {
    return graph.node(reader).op == "max_pool_grad";
  });
}

// Inference says which windows and channels the op takes.
bool Serves(const OpDef& half_bytes, const Options& options, const ValueType& x) {
  NodeTypes types;
  types.options = options;
  types.inputs = {x};
  types.present = {true};
  return x.layout.channels_last() && InferTypes(half_bytes, &types).ok();
}

}  // namespace

absl::Status HalfByteIndices(Graph& graph, const OpRegistry& registry) {
  const OpDef& half_bytes = *registry.Find("max_pool_half_bytes");
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> replaced;
  // Puts a node of op `op` in the place of `id`.
  const auto replace = [&](NodeId id, const char* op, std::vector<ValueId> inputs) -> absl::StatusOr<NodeId> {
    const Node old = graph.node(id);  // a copy, because adding nodes moves them all
    graph.SetInsertionPoint(id);
    SNUG_ASSIGN_OR_RETURN(const NodeId added, builder.Add({.name = old.name,
                                                           .op = op,
                                                           .options = old.options,
                                                           .inputs = std::move(inputs),
                                                           .loc = old.loc,
                                                           .phase = old.phase,
                                                           .forward = old.forward}));
    graph.SetInsertionPoint(NodeId());
    replaced[old.outputs[0]] = graph.node(added).outputs[0];
    graph.SwapNames(id, added);
    graph.RemoveNode(id);
    return added;
  };
  for (const NodeId id : graph.ProgramOrder()) {
    const Node pool = graph.node(id);
    if (pool.op != "max_pool_indices" || !AreForGradients(graph, surroundings, pool.outputs[1])) continue;
    if (!Serves(half_bytes, pool.options, graph.type(pool.inputs[0]))) continue;
    SNUG_ASSIGN_OR_RETURN(const NodeId halves, replace(id, "max_pool_half_bytes", pool.inputs));
    const ValueId index = graph.node(halves).outputs[1];
    for (const NodeId reader : surroundings.Readers(pool.outputs[1])) {
      SNUG_RETURN_IF_ERROR(replace(reader, "max_pool_half_bytes_grad", {index, graph.node(reader).inputs[1]}).status());
    }
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug::core
