// Has the gradient of a convolution's data take what the gradient of the batch norm before it needs, while caches have
// it: conv_grad_input + batch_norm_fused_add_grad becomes conv_grad_input_sums, which adds a shortcut's gradient, masks
// and sums, + batch_norm_grad_input, which makes dx of that; and batch_norm_fused_grad alike. One of the two sweeps
// over memory that the gradient of a batch norm takes is saved, and so is the masked gradient's way to memory and back.
#include <absl/strings/str_cat.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/conv_fusions.h"
#include "ops/graph_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

// The inputs of a batch norm's gradient, of which those may be absent that its op has not.
struct NormGradPorts {
  ValueId x, weight, bias, mean, var, y, dy, dy2;
};

std::optional<NormGradPorts> PortsOf(const Node& node) {
  const auto input = [&](size_t i) { return i < node.inputs.size() ? node.inputs[i] : ValueId(); };
  if (node.op == "batch_norm_fused_grad") {
    return NormGradPorts{.x = input(0),
                         .weight = input(1),
                         .bias = input(2),
                         .mean = input(3),
                         .var = input(4),
                         .y = {},
                         .dy = input(5),
                         .dy2 = {}};
  }
  if (node.op == "batch_norm_fused_add_grad") {
    return NormGradPorts{.x = input(1),
                         .weight = input(2),
                         .bias = {},
                         .mean = input(3),
                         .var = input(4),
                         .y = input(0),
                         .dy = input(5),
                         .dy2 = input(6)};
  }
  return std::nullopt;
}

class ConvolutionSummer {
 public:
  ConvolutionSummer(Graph& graph, const OpRegistry& registry)
      : graph_(graph), builder_(registry, &graph), surroundings_(graph) {}

  absl::Status Run() {
    for (const NodeId id : graph_.ProgramOrder()) {
      const Node norm = graph_.node(id);
      std::optional<NormGradPorts> ports = PortsOf(norm);
      if (!ports.has_value()) continue;
      const bool adds = ports->dy2.valid();
      NodeId conv = ConvolutionThatSums(ports->dy, adds);
      if (!conv.valid() && adds) {
        std::swap(ports->dy, ports->dy2);
        conv = ConvolutionThatSums(ports->dy, adds);
      }
      if (conv.valid()) SNUG_RETURN_IF_ERROR(SumIn(conv, id, *ports));
    }
    graph_.ReplaceUses(replaced_);
    return absl::OkStatus();
  }

 private:
  // Returns the node that makes a gradient, if it can sum it on the way, with another one if it `adds` that; invalid
  // otherwise.
  NodeId ConvolutionThatSums(ValueId gradient, bool adds) const {
    if (!gradient.valid() || !surroundings_.SoleReader(gradient).valid()) return NodeId();
    const NodeId producer = graph_.value(gradient).producer;
    if (!producer.valid() || graph_.node(producer).op != "conv_grad_input") return NodeId();
    const Node& conv = graph_.node(producer);
    const bool sums = SumsAsItConvolvesBack(conv.options.Get<proto::ConvGrad>(), graph_.type(conv.inputs[0]), adds);
    return sums ? producer : NodeId();
  }

  absl::Status SumIn(NodeId conv_id, NodeId norm_id, const NormGradPorts& ports) {
    const Node conv = graph_.node(conv_id), norm = graph_.node(norm_id);
    const auto& fused = norm.options.Get<proto::FusedBatchNorm>();
    proto::ConvGradSums options;
    *options.mutable_conv_grad() = conv.options.Get<proto::ConvGrad>();
    *options.mutable_norm() = fused;
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> summed,
                          builder_.AddBefore(norm_id, conv,
                                             {.name = absl::StrCat(conv.name, "+sums"),
                                              .op = "conv_grad_input_sums",
                                              .options = proto::MakeOptions(options),
                                              .inputs = {conv.inputs[0], conv.inputs[1], ports.x, ports.mean, ports.var,
                                                         ports.weight, ports.bias, ports.y, ports.dy2}}));
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> dx,
                          builder_.AddBefore(norm_id, norm,
                                             {.name = absl::StrCat(norm.name, "/apply"),
                                              .op = "batch_norm_grad_input",
                                              .options = proto::MakeOptions(fused.batch_norm()),
                                              .inputs = {ports.x, ports.weight, ports.mean, ports.var, summed[0],
                                                         summed[1], summed[2]}}));
    replaced_[norm.outputs[0]] = dx[0];
    for (const size_t sum : {1, 2}) replaced_[norm.outputs[sum]] = summed[sum];
    if (norm.outputs.size() > 3) replaced_[norm.outputs[3]] = summed[0];
    graph_.RemoveNode(conv_id);
    graph_.RemoveNode(norm_id);
    return absl::OkStatus();
  }

  Graph& graph_;
  GraphBuilder builder_;
  const Surroundings surroundings_;
  std::unordered_map<ValueId, ValueId> replaced_;
};

}  // namespace

absl::Status SumInConvolution(Graph& graph, const OpRegistry& registry) {
  return ConvolutionSummer(graph, registry).Run();
}

}  // namespace snug::core
