// Where a gradient needs what an op was given, and that would be kept for it alone, while what the op gave is kept
// anyway for the layer after it, the gradient takes what the op gave: of layer norm, batch norm and gelu, the last with
// one bit an element (ops/nn/layer_norm_from_output.cc, batch_norm_from_output.cc, ops/activation/gelu_from_output.cc).
// What the op was given then dies in the forward pass. It is an option, because the gradient is another one in its last
// digits, and a norm's asks for weights that are not small beside its bias.
#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

class FromOutputs {
 public:
  FromOutputs(Graph& graph, const OpRegistry& registry)
      : graph_(graph), registry_(registry), builder_(registry, &graph), surroundings_(graph) {}

  absl::Status Run() {
    int64_t position = 0;
    for (const NodeId id : graph_.ProgramOrder()) {
      position_[id] = position++;
      if (graph_.node(id).op == "all_finite" && graph_.node(id).phase == Phase::kUpdate) gates_.push_back(id);
    }
    for (const NodeId id : graph_.ProgramOrder()) {
      const Node node = graph_.node(id);  // a copy, because adding nodes moves them all
      if (node.phase != Phase::kForward) continue;
      if (node.op == "gelu") SNUG_RETURN_IF_ERROR(RewriteGelu(id));
      if (node.op == "layer_norm") SNUG_RETURN_IF_ERROR(RewriteLayerNorm(id));
      if (node.op == "batch_norm") SNUG_RETURN_IF_ERROR(RewriteBatchNorm(id));
    }
    graph_.ReplaceUses(replaced_);
    return absl::OkStatus();
  }

 private:
  // The value whose bytes a view shows, through any number of views.
  ValueId Shown(ValueId value) const {
    while (graph_.value(value).producer.valid()) {
      const Node& producer = graph_.node(graph_.value(value).producer);
      if (!registry_.Get(producer.op).traits.view) break;
      value = producer.inputs[0];
    }
    return value;
  }

  // Whether the bytes of the value, or of what shows it, are there in the backward pass also without `except`.
  bool StaysWithout(ValueId value, NodeId except) const {
    if (graph_.value(value).variable.valid() || surroundings_.Kept(value)) return true;
    return absl::c_any_of(surroundings_.Readers(value), [&](NodeId reader) {
      const Node& node = graph_.node(reader);
      if (reader == except) return false;
      if (node.phase != Phase::kForward) return true;
      if (!registry_.Get(node.op).traits.view) return false;
      return absl::c_any_of(node.outputs, [&](ValueId view) { return StaysWithout(view, except); });
    });
  }

  // The node of `op` that computes the node's gradient from x, its input 0; invalid if there is none, or several.
  NodeId GradientOf(NodeId id, absl::string_view op) const {
    const Node& node = graph_.node(id);
    NodeId found;
    for (const NodeId reader : surroundings_.Readers(node.inputs[0])) {
      const Node& gradient = graph_.node(reader);
      if (gradient.op != op || gradient.inputs[0] != node.inputs[0] || gradient.options != node.options) continue;
      if (gradient.forward.valid() && gradient.forward != id) continue;
      if (found.valid()) return NodeId();
      found = reader;
    }
    return found;
  }

  bool Pays(const Node& node, NodeId gradient) const {
    return !StaysWithout(Shown(node.inputs[0]), gradient) && StaysWithout(node.outputs[0], gradient);
  }

  NodeSpec Like(const Node& node, std::string op, std::vector<ValueId> inputs) const {
    return {.name = node.name,
            .op = std::move(op),
            .options = node.options,
            .inputs = std::move(inputs),
            .loc = node.loc,
            .phase = node.phase,
            .forward = node.forward};
  }

  absl::StatusOr<NodeId> AddBefore(NodeId place, NodeSpec spec) {
    graph_.SetInsertionPoint(place);
    absl::StatusOr<NodeId> added = builder_.Add(std::move(spec));
    graph_.SetInsertionPoint(NodeId());
    return added;
  }

  // Puts two nodes in the place of an op and its gradient, by their names. They have the same outputs, but that of the
  // op only the first is there still.
  void Replace(NodeId id, NodeId forward, NodeId gradient, NodeId backward) {
    for (size_t i = 0; i < graph_.node(gradient).outputs.size(); ++i) {
      replaced_[graph_.node(gradient).outputs[i]] = graph_.node(backward).outputs[i];
    }
    replaced_[graph_.node(id).outputs[0]] = graph_.node(forward).outputs[0];
    graph_.SwapNames(gradient, backward);
    graph_.SwapNames(id, forward);
    graph_.RemoveNode(gradient);
    graph_.RemoveNode(id);
  }

  absl::Status RewriteGelu(NodeId id) {
    const NodeId gradient_id = GradientOf(id, "gelu_grad");
    if (!gradient_id.valid() || !Pays(graph_.node(id), gradient_id)) return absl::OkStatus();
    const Node gelu = graph_.node(id);  // copies, because adding nodes moves them all
    const Node gradient = graph_.node(gradient_id);
    SNUG_ASSIGN_OR_RETURN(const NodeId made, AddBefore(id, Like(gelu, "gelu_with_side", gelu.inputs)));
    const std::vector<ValueId> both = graph_.node(made).outputs;
    NodeSpec from_output = Like(gradient, "gelu_from_output_grad", {both[0], both[1], gradient.inputs[1]});
    from_output.forward = made;
    SNUG_ASSIGN_OR_RETURN(const NodeId backward, AddBefore(gradient_id, std::move(from_output)));
    Replace(id, made, gradient_id, backward);
    return absl::OkStatus();
  }

  absl::Status RewriteLayerNorm(NodeId id) {
    const NodeId gradient_id = GradientOf(id, "layer_norm_grad");
    if (!gradient_id.valid() || !Pays(graph_.node(id), gradient_id)) return absl::OkStatus();
    const Node norm = graph_.node(id);
    const Node gradient = graph_.node(gradient_id);
    if (graph_.type(norm.outputs[0]).dtype == DType::kBFloat16) return absl::OkStatus();  // it has too few digits
    for (const ValueId statistic : {norm.outputs[1], norm.outputs[2]}) {  // which the new node may not have
      if (surroundings_.SoleReader(statistic) != gradient_id) return absl::OkStatus();
    }
    SNUG_ASSIGN_OR_RETURN(const NodeId made, AddBefore(id, Like(norm, "layer_norm_invertible", norm.inputs)));
    const std::vector<ValueId> both = graph_.node(made).outputs;
    const ValueId weight = norm.inputs.size() > 1 ? norm.inputs[1] : ValueId();
    const ValueId bias = norm.inputs.size() > 2 ? norm.inputs[2] : ValueId();
    NodeSpec from_output =
        Like(gradient, "layer_norm_from_output_grad", {both[0], weight, bias, both[1], gradient.inputs[4]});
    from_output.forward = made;
    SNUG_ASSIGN_OR_RETURN(const NodeId backward, AddBefore(gradient_id, std::move(from_output)));
    Replace(id, made, gradient_id, backward);
    return absl::OkStatus();
  }

  // The op stays as it is.
  absl::Status RewriteBatchNorm(NodeId id) {
    const NodeId gradient_id = GradientOf(id, "batch_norm_grad");
    if (!gradient_id.valid() || !Pays(graph_.node(id), gradient_id)) return absl::OkStatus();
    const Node norm = graph_.node(id);
    const Node gradient = graph_.node(gradient_id);
    if (graph_.type(norm.outputs[0]).dtype == DType::kBFloat16) return absl::OkStatus();  // it has too few digits
    const bool affine = norm.inputs.size() > 2 && norm.inputs[1].valid() && norm.inputs[2].valid();
    if (!affine) return absl::OkStatus();
    const ValueId weight = norm.inputs[1], bias = norm.inputs[2];
    NodeSpec check = Like(norm, "batch_norm_output_scales", {weight, bias, norm.outputs[2], norm.outputs[0]});
    check.name = absl::StrCat(norm.name, "/output_scales");
    SNUG_ASSIGN_OR_RETURN(const NodeId checked, AddBefore(graph_.node(id).next, std::move(check)));
    const std::vector<ValueId> scales = graph_.node(checked).outputs;
    for (const NodeId gate : gates_) {  // not those of updates that a step makes before it comes to this layer
      if (position_[gate] > position_[id]) graph_.node(gate).inputs.push_back(scales[0]);
    }
    NodeSpec of_output = Like(gradient, "batch_norm_from_output_grad",
                              {norm.outputs[0], scales[0], bias, scales[1], gradient.inputs[4], scales[2]});
    of_output.options = Options();
    SNUG_ASSIGN_OR_RETURN(const NodeId backward, AddBefore(gradient_id, std::move(of_output)));
    for (size_t i = 0; i < gradient.outputs.size(); ++i) {
      replaced_[gradient.outputs[i]] = graph_.node(backward).outputs[i];
    }
    graph_.SwapNames(gradient_id, backward);
    graph_.RemoveNode(gradient_id);
    return absl::OkStatus();
  }

  Graph& graph_;
  const OpRegistry& registry_;
  GraphBuilder builder_;
  const Surroundings surroundings_;               // of the graph as it was
  std::vector<NodeId> gates_;                     // which open the updates
  std::unordered_map<NodeId, int64_t> position_;  // of the nodes that were there
  std::unordered_map<ValueId, ValueId> replaced_;
};

}  // namespace

absl::Status GradientsFromOutputs(Graph& graph, const OpRegistry& registry) {
  return FromOutputs(graph, registry).Run();
}

}  // namespace snug::core
