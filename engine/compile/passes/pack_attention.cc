// Lets attention read q, k and v where a projection of all three has put them: split into three along the last axis +
// attention becomes packed_attention, whose gradient is that of the projection's result. It runs before the backward
// stage, so neither the copies of the split nor those that join the gradients come about.
#include <absl/strings/str_cat.h>

#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

// Returns the split of which the attention reads all parts, in their sequence, and nobody else any; invalid if there is
// none.
NodeId SplitBefore(const Graph& graph, const Surroundings& surroundings, const Node& attention) {
  if (attention.inputs.size() != 3 || !attention.options.Get<proto::Attention>().has_heads()) return NodeId();
  const NodeId split = graph.value(attention.inputs[0]).producer;
  if (!split.valid() || graph.node(split).op != "split" || graph.node(split).outputs != attention.inputs) {
    return NodeId();
  }
  const Shape& whole = graph.type(graph.node(split).inputs[0]).shape;
  for (const ValueId part : attention.inputs) {
    if (!surroundings.SoleReader(part).valid() || graph.type(part).shape != whole.WithDim(2, whole[2] / 3)) {
      return NodeId();
    }
  }
  return split;
}

}  // namespace

absl::Status PackAttention(Graph& graph, const OpRegistry& registry) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  for (const NodeId id : graph.ProgramOrder()) {
    if (graph.node(id).op != "attention") continue;
    const Node attention = graph.node(id);
    const NodeId split = SplitBefore(graph, surroundings, attention);
    if (!split.valid()) continue;
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> packed,
                          builder.AddBefore(id, attention,
                                            {.name = absl::StrCat(graph.node(split).name, "+", attention.name),
                                             .op = "packed_attention",
                                             .options = attention.options,
                                             .inputs = {graph.node(split).inputs[0]}}));
    for (size_t i = 0; i < attention.outputs.size(); ++i) {
      graph.ReplaceUses(attention.outputs[i], packed[i]);
    }
    graph.RemoveNode(id);
    graph.RemoveNode(split);
  }
  return absl::OkStatus();
}

}  // namespace snug::core
