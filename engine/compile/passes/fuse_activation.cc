// Fuses an activation into the convolution or dense layer before it, if nothing else reads that layer's output and the
// gradient (if any) only needs the activation's output. One node then writes the activation, and the value between them
// is never stored.
#include <absl/strings/str_cat.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/activation.h"
#include "ops/graph_builder.h"

namespace snug::core {
absl::Status FuseActivation(Graph& graph, const OpRegistry& registry) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> replaced;
  for (const NodeId id : graph.ProgramOrder()) {
    const Node linear = graph.node(id);
    const WithActivation& fused = registry.Get(linear.op).with_activation;
    if (fused.op.empty()) continue;
    const NodeId reader = surroundings.SoleReader(linear.outputs[0]);
    if (!reader.valid()) continue;
    const Node act = graph.node(reader);
    const Activation activation = registry.Get(act.op).activation;
    if (activation == Activation::kIdentity) continue;
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> made,
                          builder.AddBefore(reader, linear,
                                            {.name = absl::StrCat(linear.name, "+", act.name),
                                             .op = std::string(fused.op),
                                             .options = fused.options(linear.options, activation),
                                             .inputs = linear.inputs}));
    replaced[act.outputs[0]] = made[0];
    graph.RemoveNode(reader);
    graph.RemoveNode(id);
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug::core
