// Batch norm, the addition of a shortcut, and relu or relu6 in one sweep over memory:
//
//   forward   batch_norm (+ add) + act             -> batch_norm_fused: neither the normalised value nor the sum is
//             stored
//   backward  act's gradient + batch_norm_grad, where no add was between -> batch_norm_fused_grad: what the activation
//             let through is computed anew
//             the same after an add, with other readers of the masked gradient (a shortcut) ->
//             batch_norm_fused_add_grad: the mask comes from the activation's output, the masked gradient is the fourth
//             output, and a sum of two gradients that flows into the activation's is taken along
//
// The two halves are matched independently: each is right without the other.
#include <absl/strings/str_cat.h>

#include <optional>
#include <unordered_map>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug {
namespace {

std::optional<proto::Activation> ActivationOf(const std::string& op) {
  if (op == "relu" || op == "relu_grad") return proto::RELU;
  if (op == "relu6" || op == "relu6_grad") return proto::RELU6;
  return std::nullopt;
}

Options FusedOptions(const Node& batch_norm, std::optional<proto::Activation> activation) {
  proto::FusedBatchNorm options;
  *options.mutable_batch_norm() = batch_norm.options.Get<proto::BatchNorm>();
  options.set_activation(*activation);
  return proto::MakeOptions(options);
}

class BatchNormFuser {
 public:
  BatchNormFuser(Graph& graph, const OpRegistry& registry)
      : graph_(graph), builder_(registry, &graph), surroundings_(graph) {}

  absl::Status Run() {
    for (const NodeId id : graph_.ProgramOrder()) {
      if (graph_.node(id).removed) continue;
      const std::string op = graph_.node(id).op;  // a copy: fusing adds nodes, which moves them all
      if (op == "batch_norm" || op == "batch_norm_inference") SNUG_RETURN_IF_ERROR(FuseForward(id));
      if (ActivationOf(op).has_value() && graph_.node(id).phase == Phase::kBackward)
        SNUG_RETURN_IF_ERROR(FuseBackward(id));
    }
    graph_.ReplaceUses(replaced_);
    return absl::OkStatus();
  }

 private:
  absl::Status FuseForward(NodeId id) {
    const Node batch_norm = graph_.node(id);
    NodeId reader = surroundings_.SoleReader(batch_norm.outputs[0]);
    // A sum of two batch norms goes to the first; the second finds it taken.
    if (!reader.valid() || graph_.node(reader).removed) return absl::OkStatus();
    ValueId shortcut;
    NodeId add;
    if (graph_.node(reader).op == "add") {
      add = reader;
      const Node& node = graph_.node(add);
      shortcut = node.inputs[0] == batch_norm.outputs[0] ? node.inputs[1] : node.inputs[0];
      if (!(graph_.type(shortcut).shape == graph_.type(batch_norm.outputs[0]).shape) ||
          shortcut == batch_norm.outputs[0])
        return absl::OkStatus();
      reader = surroundings_.SoleReader(node.outputs[0]);
      if (!reader.valid()) return absl::OkStatus();
    }
    const Node act = graph_.node(reader);
    const std::optional<proto::Activation> activation = ActivationOf(act.op);
    if (!activation.has_value() || act.phase != Phase::kForward) return absl::OkStatus();

    std::vector<ValueId> inputs = batch_norm.inputs;
    if (add.valid()) {
      inputs.resize(batch_norm.op == "batch_norm" ? 3 : 5);  // an absent weight and bias stay absent
      inputs.push_back(shortcut);
    }
    const std::string name =
        absl::StrCat(batch_norm.name, add.valid() ? absl::StrCat("+", graph_.node(add).name) : "", "+", act.name);
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> fused,
                          Add(name, absl::StrCat(batch_norm.op, "_fused"), FusedOptions(batch_norm, activation),
                              std::move(inputs), batch_norm, reader));
    replaced_[act.outputs[0]] = fused[0];
    for (size_t i = 1; i < batch_norm.outputs.size(); ++i) replaced_[batch_norm.outputs[i]] = fused[i];
    graph_.RemoveNode(reader);
    if (add.valid()) graph_.RemoveNode(add);
    graph_.RemoveNode(id);
    return absl::OkStatus();
  }

  // `id` is the activation's gradient (y, dy) -> masked dy.
  absl::Status FuseBackward(NodeId id) {
    const Node act_grad = graph_.node(id);
    const ValueId masked = act_grad.outputs[0];
    if (surroundings_.Kept(masked)) return absl::OkStatus();
    // The batch norm that it flows into: the first whose gradient reads it. A second one (of a shortcut that ends in a
    // batch norm) and all other readers get the masked gradient from this one.
    NodeId norm_grad;
    for (const NodeId reader : surroundings_.Readers(masked)) {
      const Node& node = graph_.node(reader);
      if (!node.removed && node.op == "batch_norm_grad" && node.inputs[4] == masked) {
        norm_grad = reader;
        break;
      }
    }
    if (!norm_grad.valid()) return absl::OkStatus();
    const Node norm = graph_.node(norm_grad);
    const NodeId direct = NormUnder(act_grad.inputs[0]);
    const bool recomputes = surroundings_.Readers(masked).size() == 1 && direct.valid() &&
                            Current(norm.inputs[2]) == Current(graph_.node(direct).outputs[1]);
    // The masked gradient must be there for its other readers: place the fused node at the first of them.
    const NodeId position = surroundings_.Readers(masked)[0];
    std::vector<ValueId> inputs = norm.inputs;  // x, weight, mean, var, masked
    inputs.back() = act_grad.inputs[1];
    if (recomputes) {
      const std::vector<ValueId>& forward = graph_.node(direct).inputs;  // x, weight, bias
      inputs.insert(inputs.begin() + 2, forward.size() > 2 ? forward[2] : ValueId());
    } else {
      inputs.insert(inputs.begin(), act_grad.inputs[0]);
      AbsorbSum(inputs);
    }
    const char* op = recomputes ? "batch_norm_fused_grad" : "batch_norm_fused_add_grad";
    const absl::StatusOr<std::vector<ValueId>> fused =
        Add(absl::StrCat(norm.name, "+", act_grad.op), op, FusedOptions(norm, ActivationOf(act_grad.op)),
            std::move(inputs), norm, position);
    SNUG_RETURN_IF_ERROR(fused.status());
    for (size_t i = 0; i < norm.outputs.size(); ++i) replaced_[norm.outputs[i]] = (*fused)[i];
    if (!recomputes) replaced_[masked] = (*fused)[3];
    graph_.RemoveNode(norm_grad);
    graph_.RemoveNode(id);
    return absl::OkStatus();
  }

  ValueId Current(ValueId value) const {
    const auto it = replaced_.find(value);
    return it == replaced_.end() ? value : it->second;
  }

  // The batch norm whose activation is `y`, with nothing between; fused already, or not.
  NodeId NormUnder(ValueId y) const {
    const NodeId producer = graph_.value(Current(y)).producer;
    if (!producer.valid()) return NodeId();
    const Node& node = graph_.node(producer);
    if (node.op == "batch_norm_fused") return node.inputs.size() > 3 ? NodeId() : producer;
    if (!ActivationOf(node.op).has_value() || node.phase != Phase::kForward) return NodeId();
    const NodeId below = graph_.value(node.inputs[0]).producer;
    return below.valid() && graph_.node(below).op == "batch_norm" ? below : NodeId();
  }

  // Where the last of `inputs`, dy, is a sum of two values that nobody else reads: the two in its place.
  void AbsorbSum(std::vector<ValueId>& inputs) {
    const ValueId dy = inputs.back();
    const NodeId producer = graph_.value(dy).producer;
    if (!producer.valid() || !surroundings_.SoleReader(dy).valid()) return;
    const Node& sum = graph_.node(producer);
    if (sum.op != "add_n" || sum.inputs.size() != 2) return;
    for (const ValueId term : sum.inputs) {
      if (!(graph_.type(term) == graph_.type(dy))) return;
    }
    inputs.pop_back();
    inputs.insert(inputs.end(), sum.inputs.begin(), sum.inputs.end());
    graph_.RemoveNode(producer);
  }

  absl::StatusOr<std::vector<ValueId>> Add(std::string name, absl::string_view op, Options options,
                                           std::vector<ValueId> inputs, const Node& like, NodeId before) {
    graph_.SetInsertionPoint(before);
    absl::StatusOr<NodeId> node = builder_.Add({.name = std::move(name),
                                                .op = std::string(op),
                                                .options = std::move(options),
                                                .inputs = std::move(inputs),
                                                .loc = like.loc,
                                                .phase = like.phase,
                                                .random_id = like.random_id,
                                                .forward = like.forward});
    graph_.SetInsertionPoint(NodeId());
    SNUG_RETURN_IF_ERROR(node.status());
    return graph_.node(*node).outputs;
  }

  Graph& graph_;
  GraphBuilder builder_;
  const Surroundings surroundings_;
  std::unordered_map<ValueId, ValueId> replaced_;
};

}  // namespace

absl::Status FuseBatchNorm(Graph& graph, const OpRegistry& registry) { return BatchNormFuser(graph, registry).Run(); }

}  // namespace snug
