// Joins the last dense layer, softmax_cross_entropy of what it gives, and the gradients of both, to one node that does
// them in blocks of rows (ops/loss/dense_cross_entropy.cc), so that the logits of all rows are never there. The node
// stands where the loss stood. It is an option, because the sums over rows take another sequence, and the gradient of
// the weights is there from the loss on.
//
// That asks for logits that nothing else reads, a gradient of the loss that is a constant, and so many rows that the
// logits of those beyond a block are more than the gradient of the weights, which stands in their place.
#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "ops/own_products.h"

namespace snug::core {
namespace {

// What is joined.
struct Parts {
  NodeId dense, loss, loss_grad, grad_input, grad_weight;
  NodeId grad_bias;  // invalid without a bias
  NodeId constant;   // the loss's own gradient
};

// Finds what reads the gradient of the logits: each of the three once, and nothing else.
bool FindGradients(const Graph& graph, const Surroundings& surroundings, Parts* parts) {
  const ValueId dlogits = graph.node(parts->loss_grad).outputs[0];
  const Node& dense = graph.node(parts->dense);
  if (surroundings.Kept(dlogits)) return false;
  for (const NodeId reader : surroundings.Readers(dlogits)) {
    const Node& node = graph.node(reader);
    NodeId* found = nullptr;
    if (node.op == "dense_grad_input" && node.inputs[1] == dense.inputs[1]) found = &parts->grad_input;
    if (node.op == "dense_grad_weight" && node.inputs[0] == dense.inputs[0]) found = &parts->grad_weight;
    if (node.op == "reduce_to_shape") found = &parts->grad_bias;
    if (found == nullptr || found->valid()) return false;
    *found = reader;
  }
  const bool has_bias = dense.inputs.size() > 2 && dense.inputs[2].valid();
  return parts->grad_input.valid() && parts->grad_weight.valid() && parts->grad_bias.valid() == has_bias;
}

// Returns whether the loss and what is around it can be joined.
bool Find(const Graph& graph, const Surroundings& surroundings, NodeId loss_id, Parts* parts) {
  const Node& loss = graph.node(loss_id);
  const ValueId logits = loss.inputs[0];
  parts->loss = loss_id;
  parts->dense = graph.value(logits).producer;
  parts->loss_grad = surroundings.SoleReader(loss.outputs[1]);
  if (!parts->dense.valid() || graph.node(parts->dense).op != "dense") return false;
  if (!parts->loss_grad.valid() || graph.node(parts->loss_grad).op != "softmax_cross_entropy_grad") return false;
  const ValueType& type = graph.type(logits);
  const int last = type.shape.rank() - 1;
  const Shape& x = graph.type(graph.node(parts->dense).inputs[0]).shape;
  const int64_t fewest = kRowsInBlockOfLoss + x[x.rank() - 1];
  if (type.dtype == DType::kBFloat16 || type.shape.Count(0, last) <= fewest) return false;
  if (graph.type(loss.inputs[1]).dtype != DType::kInt32 && graph.type(loss.inputs[1]).dtype != DType::kInt64) {
    return false;  // probabilities
  }
  if (surroundings.Kept(logits) || surroundings.Readers(logits).size() != 2) return false;
  const Node& gradient = graph.node(parts->loss_grad);
  if (gradient.inputs[0] != logits) return false;
  parts->constant = graph.value(gradient.inputs[3]).producer;
  if (!parts->constant.valid() || graph.node(parts->constant).op != "fill") return false;
  return FindGradients(graph, surroundings, parts);
}

}  // namespace

absl::Status LossInBlocks(Graph& graph, const OpRegistry& registry) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> replaced;
  std::unordered_set<NodeId> moved;  // constants, which several losses may share, to before the first of them
  for (const NodeId id : graph.ProgramOrder()) {
    if (graph.node(id).op != "softmax_cross_entropy") continue;
    Parts parts;
    if (!Find(graph, surroundings, id, &parts)) continue;
    const Node dense = graph.node(parts.dense);  // copies, because adding nodes moves them all
    const Node loss = graph.node(id);
    const ValueId dloss = graph.node(parts.constant).outputs[0];
    const ValueId bias = parts.grad_bias.valid() ? dense.inputs[2] : ValueId();
    if (moved.insert(parts.constant).second) graph.MoveBefore(parts.constant, id);
    SNUG_ASSIGN_OR_RETURN(
        const std::vector<ValueId> made,
        builder.AddBefore(id, loss,
                          {.name = absl::StrCat(dense.name, "+", loss.name),
                           .op = "dense_cross_entropy",
                           .options = loss.options,
                           .inputs = {dense.inputs[0], loss.inputs[1], dense.inputs[1], bias, dloss}}));
    replaced[loss.outputs[0]] = made[0];
    replaced[graph.node(parts.grad_input).outputs[0]] = made[1];
    replaced[graph.node(parts.grad_weight).outputs[0]] = made[2];
    if (parts.grad_bias.valid()) replaced[graph.node(parts.grad_bias).outputs[0]] = made[3];
    for (const NodeId gone :
         {parts.grad_input, parts.grad_weight, parts.grad_bias, parts.loss_grad, parts.loss, parts.dense}) {
      if (gone.valid()) graph.RemoveNode(gone);
    }
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug::core
