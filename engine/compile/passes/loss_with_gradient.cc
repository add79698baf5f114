// Computes a cross-entropy and the gradient of its logits at once, where the gradient of the loss itself is a constant,
// as that of an objective is: softmax_cross_entropy, its gradient, the `fill` that this begins with, and the test
// whether the loss is finite, which opens the updates' gate, become softmax_cross_entropy_with_grad. That stands where
// the gradient stood, so that whatever else reads the logits, as an accuracy does, may come before it.
#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <unordered_map>
#include <unordered_set>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

// Returns the node that computes a constant, or an invalid id.
NodeId FillOf(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  return producer.valid() && graph.node(producer).op == "fill" ? producer : NodeId();
}

}  // namespace

absl::Status LossWithGradient(Graph& graph, const OpRegistry& registry) {
  const Surroundings surroundings(graph);
  const std::vector<NodeId> order = graph.ProgramOrder();
  std::unordered_map<NodeId, size_t> position;
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> replaced;
  std::unordered_set<NodeId> gone;  // gradients
  for (const NodeId id : order) {
    if (graph.node(id).op != "softmax_cross_entropy") continue;
    const Node loss = graph.node(id);
    const NodeId gradient_id = surroundings.SoleReader(loss.outputs[1]);
    if (!gradient_id.valid() || graph.node(gradient_id).op != "softmax_cross_entropy_grad") continue;
    const Node gradient = graph.node(gradient_id);
    const NodeId fill = FillOf(graph, gradient.inputs[3]);
    const auto comes_later = [&](NodeId reader) { return position[reader] > position[gradient_id]; };
    const std::vector<NodeId>& readers = surroundings.Readers(loss.outputs[0]);
    if (!fill.valid() || !absl::c_all_of(readers, comes_later)) continue;

    proto::CrossEntropyWithGrad options;
    *options.mutable_cross_entropy() = loss.options.Get<proto::SoftmaxCrossEntropy>();
    options.set_dloss(graph.node(fill).options.Get<proto::Fill>().value());
    graph.SetInsertionPoint(gradient_id);
    SNUG_ASSIGN_OR_RETURN(const NodeId both, builder.Add({.name = absl::StrCat(loss.name, "+", gradient.name),
                                                          .op = "softmax_cross_entropy_with_grad",
                                                          .options = proto::MakeOptions(options),
                                                          .inputs = {loss.inputs[0], loss.inputs[1]},
                                                          .loc = loss.loc,
                                                          .phase = gradient.phase}));
    graph.SetInsertionPoint(NodeId());
    replaced[loss.outputs[0]] = graph.node(both).outputs[0];
    replaced[gradient.outputs[0]] = graph.node(both).outputs[2];
    for (const NodeId reader : readers) {
      const Node& test = graph.node(reader);
      if (test.op != "all_finite" || test.inputs.size() != 1 || surroundings.Kept(test.outputs[0])) continue;
      replaced[test.outputs[0]] = graph.node(both).outputs[1];
      graph.RemoveNode(reader);
    }
    graph.RemoveNode(gradient_id);
    graph.RemoveNode(id);
    gone.insert(gradient_id);
    // Several losses begin with one constant, which goes with the last of their gradients.
    const std::vector<NodeId>& begun = surroundings.Readers(gradient.inputs[3]);
    const auto is_gone = [&](NodeId reader) { return gone.contains(reader); };
    if (!surroundings.Kept(gradient.inputs[3]) && absl::c_all_of(begun, is_gone)) graph.RemoveNode(fill);
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug::core
