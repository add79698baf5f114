// Joins a depthwise convolution with the convolutions of 1 x 1 taps before and after it, and with the addition of a
// shortcut, into one node that never stores what is between them, if nothing else reads that. It is for weights that
// are kept (CompileOptions::keep_derived), as its kernel wants them packed.
#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/kernels/derive.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/depthwise_block.h"
#include "ops/graph_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

using Ports = DepthwiseBlockPorts;

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
  };

  // What projects in one block may expand for the next one, but belongs to the first.
  bool IsJoined(NodeId id) const { return absl::c_linear_search(joined_, id); }

  // nullopt: the node is no convolution of weights that are kept, or belongs to a block already.
  std::optional<Part> PartOf(NodeId id) const {
    if (!id.valid() || IsJoined(id)) return std::nullopt;
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

  // The addition of a value like `value`, where nothing else reads that. Where both are results of blocks, the addition
  // is the first one's.
  std::optional<std::pair<NodeId, ValueId>> AdditionTo(ValueId value) const {
    const NodeId reader = surroundings_.SoleReader(value);
    if (!reader.valid() || graph_.node(reader).op != "add") return std::nullopt;
    if (IsJoined(reader)) return std::nullopt;
    const std::vector<ValueId>& inputs = graph_.node(reader).inputs;
    const ValueId other = inputs[0] == value ? inputs[1] : inputs[0];
    if (other == value || !(graph_.type(other) == graph_.type(value))) return std::nullopt;
    return std::pair(reader, other);
  }

  absl::Status Join(NodeId id) {
    const std::optional<Part> depthwise = PartOf(id);
    if (!depthwise.has_value() || !depthwise->options.conv().depthwise()) return absl::OkStatus();
    const std::optional<Part> project = PartAfter(id);
    if (!project.has_value()) return absl::OkStatus();
    proto::DepthwiseBlock options;
    *options.mutable_depthwise() = depthwise->options;
    *options.mutable_project() = project->options;
    const auto done_in_strips = [&](NodeId first) {
      return IsDoneInStrips(options, graph_.type(graph_.node(first).inputs[0]));
    };
    const std::optional<Part> expand = PartBefore(id);
    if (expand.has_value()) {
      *options.mutable_expand() = expand->options;
      if (done_in_strips(expand->node)) return Replace(options, {expand->node, id, project->node});
      options.clear_expand();
    }
    return done_in_strips(id) ? Replace(options, {NodeId(), id, project->node}) : absl::OkStatus();
  }

  // `nodes`: what expands (invalid: nothing does), the depthwise convolution, and what projects.
  absl::Status Replace(const proto::DepthwiseBlock& options, const std::array<NodeId, 3>& nodes) {
    std::vector<ValueId> inputs(Ports::kShortcut);
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!nodes[i].valid()) continue;
      const std::vector<ValueId>& from = graph_.node(nodes[i]).inputs;
      std::copy(from.begin() + 1, from.end(), inputs.begin() + Ports::kExpand + static_cast<int64_t>(2 * i));
      joined_.push_back(nodes[i]);
    }
    const Node& first = graph_.node(nodes[0].valid() ? nodes[0] : nodes[1]);
    inputs[Ports::kX] = first.inputs[0];
    NodeId last = nodes[2];
    const Node& project = graph_.node(last);
    std::string name = absl::StrCat(first.name, "+", project.name);
    if (const auto addition = AdditionTo(graph_.node(last).outputs[0]); addition.has_value()) {
      last = addition->first;
      inputs.push_back(addition->second);
      absl::StrAppend(&name, "+", graph_.node(last).name);
      joined_.push_back(last);
    }
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> made, builder_.AddBefore(last, project,
                                                                              {.name = std::move(name),
                                                                               .op = "depthwise_block",
                                                                               .options = proto::MakeOptions(options),
                                                                               .inputs = std::move(inputs)}));
    replaced_[graph_.node(last).outputs[0]] = made[0];
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
