// Folds a batch norm of running statistics into the weights and the bias of the convolution or dense layer before it,
// if nothing else reads what is between them. It pays where the folded weights are kept (CompileOptions::keep_derived).
#include <absl/strings/str_cat.h>

#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/kernels/derive.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

// The options of the layer with a bias; nullopt: it is none that a batch norm can be folded into.
std::optional<Options> WithBias(const Node& layer) {
  if (layer.op == "conv") {
    proto::Conv options = layer.options.Get<proto::Conv>();
    options.set_bias(true);
    return proto::MakeOptions(options);
  }
  if (layer.op == "dense") {
    proto::Dense options = layer.options.Get<proto::Dense>();
    options.set_bias(true);
    return proto::MakeOptions(options);
  }
  return std::nullopt;
}

}  // namespace

absl::Status FoldBatchNorm(Graph& graph, const OpRegistry& registry) {
  const std::vector<char> derived = FindDerived(graph, registry);
  const auto is_derived = [&](ValueId value) {
    return !value.valid() || derived[static_cast<size_t>(value.index)] != 0;
  };
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> replaced;
  for (const NodeId id : graph.ProgramOrder()) {
    const Node layer = graph.node(id);
    const std::optional<Options> options = WithBias(layer);
    if (!options.has_value()) continue;
    const NodeId reader = surroundings.SoleReader(layer.outputs[0]);
    if (!reader.valid() || graph.node(reader).op != "batch_norm_inference") continue;
    const Node norm = graph.node(reader);
    const bool channels_last_axis = layer.op == "dense" && graph.type(layer.outputs[0]).shape.rank() != 2;
    const ValueId bias = layer.inputs.size() > 2 ? layer.inputs[2] : ValueId();
    bool holds_still = norm.inputs[0] == layer.outputs[0] && is_derived(layer.inputs[1]) && is_derived(bias);
    for (size_t i = 1; i < norm.inputs.size(); ++i) holds_still = holds_still && is_derived(norm.inputs[i]);
    if (channels_last_axis || !holds_still) continue;
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> folded,
                          builder.AddBefore(reader, norm,
                                            {.name = absl::StrCat(layer.name, "*", norm.name),
                                             .op = "fold_batch_norm",
                                             .options = norm.options,
                                             .inputs = {layer.inputs[1], bias, norm.inputs[1], norm.inputs[2],
                                                        norm.inputs[3], norm.inputs[4]}}));
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> made,
                          builder.AddBefore(reader, layer,
                                            {.name = absl::StrCat(layer.name, "+", norm.name),
                                             .op = layer.op,
                                             .options = *options,
                                             .inputs = {layer.inputs[0], folded[0], folded[1]}}));
    replaced[norm.outputs[0]] = made[0];
    graph.RemoveNode(reader);
    graph.RemoveNode(id);
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug::core
