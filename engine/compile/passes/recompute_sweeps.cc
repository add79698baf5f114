// Computes again, in the backward pass, what one sweep over values that stay in any case gives: batch norm of a
// convolution's result, which its own gradient keeps, activations, layer norm, pooling. What the forward pass made of
// them then dies with its last reader there. A sweep more for each is the price.
//
// A value is renewed where all that it is made of is there: Variables, values that a gradient keeps anyway, and values
// that are renewed themselves, up to a depth of kDeepest. Where several values come together (a residual block's sum)
// all must be kept: through a chain of such sums everything would have to be there again at once.
#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

constexpr int kDeepest = 3;
constexpr absl::string_view kSweeps[] = {"batch_norm",   "batch_norm_fused",
                                         "clip",         "elu",
                                         "gelu",         "group_norm",
                                         "hard_sigmoid", "hard_swish",
                                         "hard_tanh",    "layer_norm",
                                         "leaky_relu",   "max_pool_indices",
                                         "mish",         "relu",
                                         "relu6",        "rms_norm",
                                         "scale",        "sigmoid",
                                         "silu",         "softplus",
                                         "tanh"};

class Renewal {
 public:
  Renewal(Graph& graph, const OpRegistry& registry)
      : graph_(graph),
        surroundings_(graph),
        builder_(registry, &graph),
        order_(graph.ProgramOrder()),
        position_(graph.node_capacity(), -1),
        depth_(graph.value_capacity(), 0),
        renewed_(graph.value_capacity()),
        before_(graph.value_capacity()) {
    for (size_t i = 0; i < order_.size(); ++i) position_[static_cast<size_t>(order_[i].index)] = static_cast<int>(i);
  }

  absl::Status Run() {
    for (const NodeId id : order_) {
      if (graph_.node(id).phase != Phase::kForward || !MayBeDoneAgain(id)) continue;
      SNUG_RETURN_IF_ERROR(DoAgain(id));
    }
    return absl::OkStatus();
  }

 private:
  bool IsVariable(ValueId id) const { return graph_.value(id).variable.valid(); }
  bool Later(NodeId id) const { return graph_.node(id).phase != Phase::kForward; }
  std::vector<NodeId> LaterReaders(ValueId id) const {
    std::vector<NodeId> readers;
    for (const NodeId reader : surroundings_.Readers(id)) {
      if (Later(reader)) readers.push_back(reader);
    }
    return readers;
  }
  // Whether the value is there in the backward pass whatever is done here.
  bool Stays(ValueId id) const {
    return IsVariable(id) || surroundings_.Kept(id) || (!renewed(id).valid() && !LaterReaders(id).empty());
  }
  ValueId& renewed(ValueId id) { return renewed_[static_cast<size_t>(id.index)]; }
  ValueId renewed(ValueId id) const { return renewed_[static_cast<size_t>(id.index)]; }

  bool MayBeDoneAgain(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!absl::c_linear_search(kSweeps, node.op) || surroundings_.Kept(node.outputs[0])) return false;
    if (LaterReaders(node.outputs[0]).empty()) return false;
    int values = 0;
    bool all_stay = true;
    for (const ValueId input : node.inputs) {
      if (!input.valid() || IsVariable(input)) continue;
      ++values;
      if (Stays(input)) continue;
      all_stay = false;
      if (!renewed(input).valid() || depth_[static_cast<size_t>(input.index)] >= kDeepest) return false;
    }
    return values == 1 || all_stay;
  }

  // The node that gives the values anew. Batch norm has its mean and variance already.
  NodeSpec Again(const Node& node) const {
    NodeSpec again{.name = absl::StrCat(node.name, "/again"),
                   .op = node.op,
                   .options = node.options,
                   .inputs = node.inputs,
                   .loc = node.loc,
                   .phase = Phase::kBackward};
    if (absl::StartsWith(node.op, "batch_norm")) {
      again.op = node.op == "batch_norm" ? "batch_norm_inference" : "batch_norm_inference_fused";
      again.inputs.resize(3);
      again.inputs.insert(again.inputs.end(), {node.outputs[1], node.outputs[2]});
      if (node.inputs.size() > 3) again.inputs.push_back(node.inputs[3]);
    }
    for (ValueId& input : again.inputs) {
      if (input.valid() && renewed(input).valid()) input = renewed(input);
    }
    return again;
  }

  absl::Status DoAgain(NodeId id) {
    const Node node = graph_.node(id);
    NodeSpec spec = Again(node);
    // All of the outputs that the op gives anew; batch norm's statistics stay.
    const size_t given = spec.op == node.op ? node.outputs.size() : 1;
    int depth = 0;
    for (const ValueId input : node.inputs) {
      if (input.valid() && renewed(input).valid()) depth = std::max(depth, depth_[static_cast<size_t>(input.index)]);
    }
    std::vector<std::pair<NodeId, ValueId>> readers;
    NodeId first;
    for (size_t port = 0; port < given; ++port) {
      for (const NodeId reader : LaterReaders(node.outputs[port])) {
        readers.emplace_back(reader, node.outputs[port]);
        if (!first.valid() || Position(reader) < Position(first)) first = reader;
      }
    }
    for (const ValueId input : node.inputs) {
      if (input.valid() && renewed(input).valid()) Bring(input, first);
    }
    graph_.SetInsertionPoint(first);
    SNUG_ASSIGN_OR_RETURN(const NodeId again, builder_.Add(std::move(spec)));
    graph_.SetInsertionPoint(NodeId());
    for (size_t port = 0; port < given; ++port) {
      renewed(node.outputs[port]) = graph_.node(again).outputs[port];
      depth_[static_cast<size_t>(node.outputs[port].index)] = depth + 1;
      before_[static_cast<size_t>(node.outputs[port].index)] = first;
    }
    for (const auto& [reader, value] : readers) {
      for (ValueId& input : graph_.node(reader).inputs) {
        if (input == value) input = renewed(value);
      }
    }
    return absl::OkStatus();
  }

  // Moves what gives a value anew, and what that reads, to before `node`, unless it is there.
  void Bring(ValueId value, NodeId node) {
    NodeId& before = before_[static_cast<size_t>(value.index)];
    if (Position(before) <= Position(node)) return;
    before = node;
    for (const ValueId input : graph_.node(graph_.value(value).producer).inputs) {
      if (input.valid() && renewed(input).valid()) Bring(input, node);
    }
    graph_.MoveBefore(graph_.value(renewed(value)).producer, node);
  }

  int Position(NodeId id) const { return position_[static_cast<size_t>(id.index)]; }

  Graph& graph_;
  const Surroundings surroundings_;  // of the graph as it was
  GraphBuilder builder_;
  const std::vector<NodeId> order_;
  std::vector<int> position_;  // by node
  std::vector<int> depth_;     // by value: how many sweeps give it anew
  // By value of the graph as it was: what it is anew, and the node of that graph before which this is made.
  std::vector<ValueId> renewed_;
  std::vector<NodeId> before_;
};

}  // namespace

absl::Status RecomputeSweeps(Graph& graph, const OpRegistry& registry) { return Renewal(graph, registry).Run(); }

}  // namespace snug::core
