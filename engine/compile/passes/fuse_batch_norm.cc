// Fuses batch norm, the addition of a shortcut, and relu or relu6 into one sweep over memory:
//
//   forward: batch_norm (+ add) + act becomes batch_norm_fused. Neither the normalised value nor the sum is stored.
//   backward without an add: act's gradient + batch_norm_grad becomes batch_norm_fused_grad. It computes anew what the
//   activation let through.
//   backward after an add, where the masked gradient has other readers (a shortcut): the same two become
//   batch_norm_fused_add_grad. The mask comes from the activation's output, and the masked gradient is the fourth
//   output. If the gradient that flows into the activation's is a sum of two, the fused node adds them too.
//
// The two halves are matched independently, because each is right without the other.
#include <absl/strings/str_cat.h>

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/activation.h"
#include "ops/graph_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

Options FusedOptions(const Node& batch_norm, std::optional<proto::Activation> activation) {
  proto::FusedBatchNorm options;
  *options.mutable_batch_norm() = batch_norm.options.Get<proto::BatchNorm>();
  options.set_activation(*activation);
  return proto::MakeOptions(options);
}

class BatchNormFuser {
 public:
  BatchNormFuser(Graph& graph, const OpRegistry& registry)
      : graph_(graph), registry_(registry), builder_(registry, &graph), surroundings_(graph) {}

  absl::Status Run() {
    for (const NodeId id : graph_.ProgramOrder()) {
      if (graph_.node(id).removed) continue;
      const std::string op = graph_.node(id).op;  // a copy, because fusing adds nodes and so moves them all
      if (op == "batch_norm" || op == "batch_norm_inference") SNUG_RETURN_IF_ERROR(FuseForward(id));
      if (ActivationOf(op).has_value() && graph_.node(id).phase == Phase::kBackward)
        SNUG_RETURN_IF_ERROR(FuseBackward(id));
    }
    graph_.ReplaceUses(replaced_);
    return absl::OkStatus();
  }

 private:
  // That an op is, or whose gradient it is; of those that the fused ops know.
  std::optional<proto::Activation> ActivationOf(const std::string& op) const {
    const OpDef& def = registry_.Get(op);
    const Activation found = def.activation != Activation::kIdentity ? def.activation : def.activation_grad;
    const bool known = found == Activation::kRelu || found == Activation::kRelu6;
    return known ? std::optional(ToProto(found)) : std::nullopt;
  }

  absl::Status FuseForward(NodeId id) {
    const Node batch_norm = graph_.node(id);
    NodeId reader = surroundings_.SoleReader(batch_norm.outputs[0]);
    // A sum of two batch norms is fused into the first one; the second then finds it removed.
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
      inputs.resize(batch_norm.op == "batch_norm" ? 3 : 5);  // keeps an absent weight and bias absent
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

  // `id` is the activation's gradient: (y, dy) -> masked dy.
  absl::Status FuseBackward(NodeId id) {
    const Node act_grad = graph_.node(id);
    const ValueId masked = act_grad.outputs[0];
    if (surroundings_.Kept(masked)) return absl::OkStatus();
    // The masked gradient flows into the first batch norm whose gradient reads it. A second one (for a shortcut that
    // ends in a batch norm) and all other readers get it from the fused node.
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
    // The fused node goes before the first reader of the masked gradient, because it makes that for all of them.
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

  // Returns the batch norm whose activation is `y` with no add between, whether it is fused already or not.
  NodeId NormUnder(ValueId y) const {
    const NodeId producer = graph_.value(Current(y)).producer;
    if (!producer.valid()) return NodeId();
    const Node& node = graph_.node(producer);
    if (node.op == "batch_norm_fused") return node.inputs.size() > 3 ? NodeId() : producer;
    if (!ActivationOf(node.op).has_value() || node.phase != Phase::kForward) return NodeId();
    const NodeId below = graph_.value(node.inputs[0]).producer;
    return below.valid() && graph_.node(below).op == "batch_norm" ? below : NodeId();
  }

  // If the last of `inputs`, dy, is a sum of two values that nobody else reads, puts the two in its place.
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
    return builder_.AddBefore(
        before, like,
        {.name = std::move(name), .op = std::string(op), .options = std::move(options), .inputs = std::move(inputs)});
  }

  Graph& graph_;
  const OpRegistry& registry_;
  GraphBuilder builder_;
  const Surroundings surroundings_;
  std::unordered_map<ValueId, ValueId> replaced_;
};

}  // namespace

absl::Status FuseBatchNorm(Graph& graph, const OpRegistry& registry) { return BatchNormFuser(graph, registry).Run(); }

}  // namespace snug::core
