// Multiplies by gelu's derivative where the gradient that it multiplies is computed: dense_grad_input + gelu_grad (of
// gelu by tanh, which is what cuBLASLt knows) becomes dense_grad_input_gelu, and what lies between them is never
// stored.
#include <absl/strings/str_cat.h>

#include <unordered_map>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "proto/network.pb.h"

namespace snug::core {

absl::Status FuseGeluGradient(Graph& graph, const OpRegistry& registry) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> replaced;
  for (const NodeId id : graph.ProgramOrder()) {
    if (graph.node(id).op != "dense_grad_input") continue;
    const Node product = graph.node(id);
    const NodeId reader = surroundings.SoleReader(product.outputs[0]);
    if (!reader.valid()) continue;
    const Node gelu = graph.node(reader);
    if (gelu.op != "gelu_grad" || gelu.inputs[1] != product.outputs[0] || !gelu.options.Get<proto::Gelu>().tanh()) {
      continue;
    }
    graph.SetInsertionPoint(reader);
    SNUG_ASSIGN_OR_RETURN(const NodeId both,
                          builder.Add({.name = absl::StrCat(product.name, "+", gelu.name),
                                       .op = "dense_grad_input_gelu",
                                       .inputs = {product.inputs[0], product.inputs[1], gelu.inputs[0]},
                                       .loc = product.loc,
                                       .phase = product.phase}));
    graph.SetInsertionPoint(NodeId());
    replaced[gelu.outputs[0]] = graph.node(both).outputs[0];
    graph.RemoveNode(reader);
    graph.RemoveNode(id);
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug::core
