// Fuses batch norm and silu behind it: batch_norm + silu becomes batch_norm_silu, and silu_grad + batch_norm_grad
// becomes batch_norm_silu_grad, which computes anew, within its sweep, what batch norm gave silu. So that value is
// never stored, nor kept for the backward pass. What silu gives has the bits of the two ops one after the other.
// Gradients may have other last bits: a processor that multiplies and adds at once rounds no products in between. In
// bfloat16, where the value between the two ops is rounded to 8 bits, nothing is fused.
//
// Both halves are fused or none: one alone would still keep the value for the other.
#include <absl/strings/str_cat.h>

#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

// The two nodes that read what a batch norm gives, and the one that reads what flows back to it.
struct SiluAfterNorm {
  NodeId silu, silu_grad, norm_grad;
};

// Returns invalid nodes unless silu and its gradient are all that reads the batch norm's output.
SiluAfterNorm Match(const Graph& graph, const Surroundings& surroundings, const Node& norm) {
  const ValueId normalised = norm.outputs[0];
  if (surroundings.Kept(normalised) || surroundings.Readers(normalised).size() != 2) return {};
  SiluAfterNorm found;
  for (const NodeId reader : surroundings.Readers(normalised)) {
    const Node& node = graph.node(reader);
    if (node.op == "silu") found.silu = reader;
    if (node.op == "silu_grad" && node.inputs[0] == normalised) found.silu_grad = reader;
  }
  if (!found.silu.valid() || !found.silu_grad.valid()) return {};
  found.norm_grad = surroundings.SoleReader(graph.node(found.silu_grad).outputs[0]);
  if (!found.norm_grad.valid()) return {};
  const Node& grad = graph.node(found.norm_grad);
  const bool matches = grad.op == "batch_norm_grad" && grad.inputs[0] == norm.inputs[0] &&
                       grad.inputs[2] == norm.outputs[1] && grad.inputs[4] == graph.node(found.silu_grad).outputs[0];
  return matches ? found : SiluAfterNorm();
}

}  // namespace

absl::Status FuseBatchNormSilu(Graph& graph, const OpRegistry& registry) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> replaced;
  const auto add = [&](const Node& like, const Node& other, std::string op, std::vector<ValueId> inputs,
                       NodeId before) -> absl::StatusOr<std::vector<ValueId>> {
    return builder.AddBefore(before, like,
                             {.name = absl::StrCat(like.name, "+", other.name),
                              .op = std::move(op),
                              .options = like.options,
                              .inputs = std::move(inputs)});
  };
  for (const NodeId id : graph.ProgramOrder()) {
    if (graph.node(id).op != "batch_norm") continue;
    const Node norm = graph.node(id);  // copies, because adding nodes moves them all
    if (graph.type(norm.outputs[0]).dtype == DType::kBFloat16) continue;
    const SiluAfterNorm found = Match(graph, surroundings, norm);
    if (!found.silu.valid()) continue;
    const Node silu = graph.node(found.silu);
    const Node silu_grad = graph.node(found.silu_grad);
    const Node norm_grad = graph.node(found.norm_grad);

    std::vector<ValueId> inputs = norm.inputs;
    inputs.resize(3);  // an absent weight and bias stay absent
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> forward, add(norm, silu, "batch_norm_silu", inputs, found.silu));
    replaced[silu.outputs[0]] = forward[0];
    for (size_t i = 1; i < norm.outputs.size(); ++i) replaced[norm.outputs[i]] = forward[i];
    inputs.insert(inputs.end(), {norm_grad.inputs[2], norm_grad.inputs[3], silu_grad.inputs[1]});  // mean, var, dy
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> backward,
                          add(norm_grad, silu_grad, "batch_norm_silu_grad", std::move(inputs), found.norm_grad));
    for (size_t i = 0; i < norm_grad.outputs.size(); ++i) replaced[norm_grad.outputs[i]] = backward[i];
    for (const NodeId old : {found.norm_grad, found.silu_grad, found.silu, id}) graph.RemoveNode(old);
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug::core
