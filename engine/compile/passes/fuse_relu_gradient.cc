// Makes 0 of a gradient where relu gave none as it is computed: dense_grad_input + relu_grad becomes
// dense_grad_input_relu, one launch for two. It is for products that are small, which a kernel of our own computes; the
// library would need a mask of bits from the forward pass.
#include <absl/strings/str_cat.h>

#include <unordered_map>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "ops/small_products.h"

namespace snug::core {
namespace {

bool IsSmall(const Graph& graph, const Node& product) {
  const ValueType& dx = graph.type(product.outputs[0]);
  const Shape& weight = graph.type(product.inputs[1]).shape;
  const int64_t rows = dx.shape.Count(0, dx.shape.rank() - 1);
  return SmallProductPays(rows, weight[1], weight[0], dx.dtype, /*tf32=*/false);
}

}  // namespace

absl::Status FuseReluGradient(Graph& graph, const OpRegistry& registry) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> replaced;
  for (const NodeId id : graph.ProgramOrder()) {
    if (graph.node(id).op != "dense_grad_input") continue;
    const Node product = graph.node(id);
    const NodeId reader = surroundings.SoleReader(product.outputs[0]);
    if (!reader.valid()) continue;
    const Node relu = graph.node(reader);
    if (relu.op != "relu_grad" || relu.inputs[1] != product.outputs[0] || !IsSmall(graph, product)) continue;
    const auto made = replaced.find(product.inputs[0]);  // of the layer after this one
    const ValueId dy = made == replaced.end() ? product.inputs[0] : made->second;
    graph.SetInsertionPoint(reader);
    SNUG_ASSIGN_OR_RETURN(const NodeId both, builder.Add({.name = absl::StrCat(product.name, "+", relu.name),
                                                          .op = "dense_grad_input_relu",
                                                          .inputs = {dy, product.inputs[1], relu.inputs[0]},
                                                          .loc = product.loc,
                                                          .phase = product.phase}));
    graph.SetInsertionPoint(NodeId());
    replaced[relu.outputs[0]] = graph.node(both).outputs[0];
    graph.RemoveNode(reader);
    graph.RemoveNode(id);
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug::core
