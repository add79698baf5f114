// Joins a depthwise convolution with the convolutions of 1 x 1 taps before and after it, and with the addition of a
// shortcut, into one node that never stores what is between them, if nothing else reads that. It is for weights that
// are kept (CompileOptions::keep_derived), as its kernel wants them packed.
#include <absl/strings/str_cat.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/kernels/derive.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/activation.h"
#include "ops/graph_builder.h"
#include "ops/kernels/conv/depthwise_block.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

using ops::DepthwiseBlock;
using Ports = ops::DepthwiseBlockPorts;

class DepthwiseJoiner {
 public:
  DepthwiseJoiner(Graph& graph, const OpRegistry& registry)
      : graph_(graph), surroundings_(graph), derived_(FindDerived(graph, registry)), builder_(registry, &graph) {}

  absl::Status Run() {
    for (const NodeId id : graph_.ProgramOrder()) SNUG_RETURN_IF_ERROR(Join(id));
    graph_.ReplaceUses(replaced_);
    for (const NodeId id : joined_) graph_.RemoveNode(id);
    return absl::OkStatus();
  }

 private:
  struct Part {
    NodeId node;
    proto::FusedConv options;
    DepthwiseBlock::Part shape;
  };

  // nullopt: the node is no convolution of weights that are kept.
  std::optional<Part> PartOf(NodeId id) const {
    if (!id.valid()) return std::nullopt;
    const Node& node = graph_.node(id);
    Part part = {.node = id};
    if (node.op == "conv_fused") {
      part.options = node.options.Get<proto::FusedConv>();
    } else if (node.op == "conv") {
      *part.options.mutable_conv() = node.options.Get<proto::Conv>();
    } else {
      return std::nullopt;
    }
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i].valid() && derived_[static_cast<size_t>(node.inputs[i].index)] == 0) return std::nullopt;
    }
    const absl::StatusOr<ops::ConvGeometry> g =
        ops::MakeConvGeometry(part.options.conv(), graph_.type(node.inputs[0]).shape);
    if (!g.ok()) return std::nullopt;
    part.shape = {*g, FromProto(part.options.activation())};
    return part;
  }

  // The convolution that `reader` alone reads the output of, as its first input.
  std::optional<Part> PartBefore(NodeId reader) const {
    const ValueId value = graph_.node(reader).inputs[0];
    if (surroundings_.SoleReader(value) != reader) return std::nullopt;
    return PartOf(graph_.value(value).producer);
  }

  std::optional<Part> PartAfter(NodeId id) const {
    const NodeId reader = surroundings_.SoleReader(graph_.node(id).outputs[0]);
    if (!reader.valid() || graph_.node(reader).inputs[0] != graph_.node(id).outputs[0]) return std::nullopt;
    return PartOf(reader);
  }

  // The addition of a value like `value`, where nothing else reads that.
  std::optional<std::pair<NodeId, ValueId>> AdditionTo(ValueId value) const {
    const NodeId reader = surroundings_.SoleReader(value);
    if (!reader.valid() || graph_.node(reader).op != "add") return std::nullopt;
    const std::vector<ValueId>& inputs = graph_.node(reader).inputs;
    const ValueId other = inputs[0] == value ? inputs[1] : inputs[0];
    if (other == value || !(graph_.type(other) == graph_.type(value))) return std::nullopt;
    return std::pair(reader, other);
  }

  bool Serves(const DepthwiseBlock& block, ValueId x) const {
    const ValueType& type = graph_.type(x);
    return type.dtype == DType::kFloat32 && type.layout.channels_last() && !ops::WhyNotStrips(block).has_value();
  }

  absl::Status Join(NodeId id) {
    const std::optional<Part> depthwise = PartOf(id);
    if (!depthwise.has_value() || depthwise->shape.geometry.groups == 1) return absl::OkStatus();
    const std::optional<Part> project = PartAfter(id);
    if (!project.has_value()) return absl::OkStatus();
    DepthwiseBlock block = {.depthwise = depthwise->shape, .project = project->shape};
    std::optional<Part> expand = PartBefore(id);
    if (expand.has_value()) {
      block.expand = expand->shape;
      if (!Serves(block, graph_.node(expand->node).inputs[0])) expand.reset();
    }
    if (!expand.has_value()) {
      block.expand.reset();
      if (!Serves(block, graph_.node(id).inputs[0])) return absl::OkStatus();
    }
    return Replace(expand, *depthwise, *project);
  }

  absl::Status Replace(const std::optional<Part>& expand, const Part& depthwise, const Part& project) {
    proto::DepthwiseBlock options;
    std::vector<ValueId> inputs(Ports::kShortcut);
    const auto take = [&](const Part& part, proto::FusedConv* into, size_t weight) {
      *into = part.options;
      const std::vector<ValueId>& from = graph_.node(part.node).inputs;
      inputs[weight] = from[1];
      if (from.size() > 2) inputs[weight + 1] = from[2];
      joined_.push_back(part.node);
    };
    if (expand.has_value()) take(*expand, options.mutable_expand(), Ports::kExpand);
    take(depthwise, options.mutable_depthwise(), Ports::kDepthwise);
    take(project, options.mutable_project(), Ports::kProject);
    const Node& first = graph_.node(expand.has_value() ? expand->node : depthwise.node);
    inputs[Ports::kX] = first.inputs[0];
    NodeId last = project.node;
    std::string name = absl::StrCat(first.name, "+", graph_.node(project.node).name);
    // A shortcut is added before an activation would be, so there is none after the convolution.
    if (const auto addition = AdditionTo(graph_.node(last).outputs[0]); addition.has_value()) {
      last = addition->first;
      inputs.push_back(addition->second);
      absl::StrAppend(&name, "+", graph_.node(last).name);
      joined_.push_back(last);
    }
    graph_.SetInsertionPoint(last);
    SNUG_ASSIGN_OR_RETURN(const NodeId node, builder_.Add({.name = std::move(name),
                                                           .op = "depthwise_block",
                                                           .options = proto::MakeOptions(options),
                                                           .inputs = std::move(inputs),
                                                           .loc = graph_.node(project.node).loc,
                                                           .phase = graph_.node(project.node).phase}));
    graph_.SetInsertionPoint(NodeId());
    replaced_[graph_.node(last).outputs[0]] = graph_.node(node).outputs[0];
    return absl::OkStatus();
  }

  Graph& graph_;
  const Surroundings surroundings_;
  const std::vector<char> derived_;
  GraphBuilder builder_;
  std::unordered_map<ValueId, ValueId> replaced_;
  std::vector<NodeId> joined_;
};

}  // namespace

absl::Status JoinDepthwise(Graph& graph, const OpRegistry& registry) { return DepthwiseJoiner(graph, registry).Run(); }

}  // namespace snug::core
