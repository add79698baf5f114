// Multiplies a gradient by the slope of relu or gelu as it is computed: dense_grad_input + relu_grad or gelu_grad
// becomes one node. On CUDA it is for products that are small, which a kernel of our own computes, and for relu; the
// library would need a mask of bits from the forward pass. On the CPU it is for products that are large, which our own
// loops compute in any case: a block of the gradient is still in the cache then, and what gelu was given is asked for
// in time, where a sweep of its own reads both from memory, and the gradient from where the other thread's core has it.
#include <absl/strings/str_cat.h>

#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "ops/own_products.h"
#include "ops/small_products.h"

namespace snug::core {
namespace {

// Rows and columns of a dense layer's dx, and how many products each of its numbers is the sum of.
struct Size {
  int64_t m, n, k;
};

Size SizeOf(const Graph& graph, const Node& product) {
  const Shape& dx = graph.type(product.outputs[0]).shape;
  const Shape& weight = graph.type(product.inputs[1]).shape;
  return {dx.Count(0, dx.rank() - 1), weight[1], weight[0]};
}

// Returns the op of a product with what `sweep` does to its result; empty if there is none.
using FusedOp = absl::string_view (*)(const Graph& graph, const Node& product, const Node& sweep);

absl::string_view OnCuda(const Graph& graph, const Node& product, const Node& sweep) {
  const Size size = SizeOf(graph, product);
  const DType dtype = graph.type(product.outputs[0]).dtype;
  const bool fuses = sweep.op == "relu_grad" && SmallProductPays(size.m, size.n, size.k, dtype, /*tf32=*/false);
  return fuses ? "dense_grad_input_relu" : "";
}

absl::string_view OnProcessor(const Graph& graph, const Node& product, const Node& sweep) {
  const DType dtype = graph.type(product.outputs[0]).dtype;
  for (const ValueId value : {product.inputs[0], product.inputs[1], sweep.inputs[0]}) {
    if (graph.type(value).dtype != dtype) return "";
  }
  if (!OwnLoopsMultiply(dtype)) return "";
  const Size size = SizeOf(graph, product);
  if (!HasTheBitsOfBlocks(size.m, size.n, size.k) || size.k <= 1) return "";
  if (sweep.op == "relu_grad") return "dense_grad_input_relu";
  return sweep.op == "gelu_grad" ? "dense_grad_input_gelu" : "";
}

absl::Status FuseWhere(Graph& graph, const OpRegistry& registry, FusedOp fused_op) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> replaced;
  for (const NodeId id : graph.ProgramOrder()) {
    if (graph.node(id).op != "dense_grad_input") continue;
    const Node product = graph.node(id);
    const NodeId reader = surroundings.SoleReader(product.outputs[0]);
    if (!reader.valid()) continue;
    const Node sweep = graph.node(reader);
    if (sweep.inputs.size() != 2 || sweep.inputs[1] != product.outputs[0]) continue;
    const absl::string_view op = fused_op(graph, product, sweep);
    if (op.empty()) continue;
    const auto made = replaced.find(product.inputs[0]);  // of the layer after this one
    const ValueId dy = made == replaced.end() ? product.inputs[0] : made->second;
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> both,
                          builder.AddBefore(reader, product,
                                            {.name = absl::StrCat(product.name, "+", sweep.name),
                                             .op = std::string(op),
                                             .options = sweep.options,
                                             .inputs = {dy, product.inputs[1], sweep.inputs[0]}}));
    replaced[sweep.outputs[0]] = both[0];
    graph.RemoveNode(reader);
    graph.RemoveNode(id);
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace

absl::Status FuseReluGradient(Graph& graph, const OpRegistry& registry) { return FuseWhere(graph, registry, OnCuda); }

absl::Status FuseSlopes(Graph& graph, const OpRegistry& registry) { return FuseWhere(graph, registry, OnProcessor); }

}  // namespace snug::core
