// A convolution or dense layer whose output only an activation reads, and whose gradient (if any) needs the
// activation's output alone: one node writes the activation directly. The values between them are never stored.
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

std::optional<proto::Activation> ActivationOf(const Node& node) {
  static const std::unordered_map<std::string, proto::Activation> kActivations = {
      {"relu", proto::RELU}, {"relu6", proto::RELU6}, {"sigmoid", proto::SIGMOID}, {"tanh", proto::TANH}};
  const auto it = kActivations.find(node.op);
  return it == kActivations.end() ? std::nullopt : std::optional(it->second);
}

struct FusedOp {
  const char* name;
  Options options;
};

std::optional<FusedOp> Fused(const Node& node, proto::Activation activation) {
  if (node.op == "conv") {
    proto::FusedConv options;
    *options.mutable_conv() = node.options.Get<proto::Conv>();
    options.set_activation(activation);
    return FusedOp{"conv_fused", proto::MakeOptions(options)};
  }
  if (node.op == "dense") {
    proto::FusedDense options;
    *options.mutable_dense() = node.options.Get<proto::Dense>();
    options.set_activation(activation);
    return FusedOp{"dense_fused", proto::MakeOptions(options)};
  }
  return std::nullopt;
}

}  // namespace

absl::Status FuseActivation(Graph& graph, const OpRegistry& registry) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> replaced;
  for (const NodeId id : graph.ProgramOrder()) {
    const Node linear = graph.node(id);
    if (linear.op != "conv" && linear.op != "dense") continue;
    const NodeId reader = surroundings.SoleReader(linear.outputs[0]);
    if (!reader.valid()) continue;
    const Node act = graph.node(reader);
    const std::optional<proto::Activation> activation = ActivationOf(act);
    if (!activation.has_value()) continue;
    std::optional<FusedOp> fused = Fused(linear, *activation);
    graph.SetInsertionPoint(reader);
    SNUG_ASSIGN_OR_RETURN(const NodeId node, builder.Add({.name = absl::StrCat(linear.name, "+", act.name),
                                                          .op = fused->name,
                                                          .options = std::move(fused->options),
                                                          .inputs = linear.inputs,
                                                          .loc = linear.loc,
                                                          .phase = linear.phase,
                                                          .random_id = linear.random_id}));
    graph.SetInsertionPoint(NodeId());
    replaced[act.outputs[0]] = graph.node(node).outputs[0];
    graph.RemoveNode(reader);
    graph.RemoveNode(id);
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug
