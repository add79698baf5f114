// Computes gelu where what it is of is computed, if that is kept for the gradient: dense + gelu (by tanh, which is what
// cuBLASLt knows) becomes dense_gelu, which writes both in one sweep. Where nobody else reads what is before gelu, it
// would be written in vain.
#include <absl/strings/str_cat.h>

#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

// Returns the gelu of a value that others read as well; invalid if there is none.
NodeId GeluBesideOthers(const Graph& graph, const Surroundings& surroundings, ValueId before) {
  const std::vector<NodeId>& readers = surroundings.Readers(before);
  if (readers.size() < 2) return NodeId();
  for (const NodeId reader : readers) {
    const Node& node = graph.node(reader);
    if (node.op == "gelu" && node.options.Get<proto::Gelu>().tanh()) return reader;
  }
  return NodeId();
}

}  // namespace

absl::Status FuseGelu(Graph& graph, const OpRegistry& registry) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> replaced;
  for (const NodeId id : graph.ProgramOrder()) {
    if (graph.node(id).op != "dense") continue;
    const Node dense = graph.node(id);
    const NodeId reader = GeluBesideOthers(graph, surroundings, dense.outputs[0]);
    if (!reader.valid()) continue;
    const Node gelu = graph.node(reader);
    // Nobody reads a result before dense.
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> both,
                          builder.AddBefore(id, dense,
                                            {.name = absl::StrCat(dense.name, "+", gelu.name),
                                             .op = "dense_gelu",
                                             .options = dense.options,
                                             .inputs = dense.inputs}));
    replaced[dense.outputs[0]] = both[0];
    replaced[gelu.outputs[0]] = both[1];
    graph.RemoveNode(reader);
    graph.RemoveNode(id);
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug::core
