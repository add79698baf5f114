#include "engine/compile/control/unroll.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/control/body_copier.h"
#include "engine/compile/control/control_nodes.h"
#include "engine/compile/control/unroll_loop.h"
#include "engine/compile/import/import.h"
#include "ops/graph_builder.h"
#include "proto/internal.pb.h"

namespace snug::core {
namespace {

constexpr int64_t kMost = int64_t{1} << 62;

// Adds the bodies of a branch, and chooses what they put out.
absl::StatusOr<std::vector<ValueId>> UnrollBranch(GraphBuilder& builder, NodeId id, const std::vector<Graph>& bodies,
                                                  bool training) {
  ControlNodes nodes(builder, id);
  const std::vector<ValueId> inputs = builder.graph().node(id).inputs;
  const Options held = builder.graph().node(id).options;
  const auto& options = held.Get<proto::BranchNode>();
  const ValueId selector = inputs[0];
  const int64_t rows = nodes.type(selector).num_elements();
  std::vector<ValueId> taken(bodies.size());
  std::vector<std::vector<ValueId>> outputs(bodies.size());
  for (size_t k = 0; k < bodies.size(); ++k) {
    const std::string name = absl::StrCat(k);
    SNUG_ASSIGN_OR_RETURN(taken[k], nodes.Equals(selector, static_cast<int64_t>(k), absl::StrCat(name, "/taken")));
    std::vector<ValueId> feeds(inputs.begin() + 1, inputs.end());
    for (size_t i = 0; training && i < feeds.size(); ++i) {
      // What is no row of the selector's samples, such as a weight, is read by all of them.
      const ValueType& type = nodes.type(feeds[i]);
      const bool guarded = rows == 1 || (absl::c_linear_search(options.per_sample(), static_cast<int32_t>(i)) &&
                                         type.shape.rank() > 0 && type.shape[0] == rows);
      if (!guarded || !IsFloating(type.dtype)) continue;
      SNUG_ASSIGN_OR_RETURN(feeds[i], nodes.Gate(feeds[i], taken[k], absl::StrCat(name, "/gate", i)));
    }
    std::vector<int> wanted(bodies[k].outputs.size());
    for (size_t o = 0; o < wanted.size(); ++o) wanted[o] = static_cast<int>(o);
    outputs[k] = BodyCopier(builder, bodies[k]).Copy(feeds, wanted, absl::StrCat(nodes.name(), "/", k));
  }
  std::vector<ValueId> result = outputs.back();
  for (size_t o = 0; o < result.size(); ++o) {
    const std::string suffix = absl::StrCat("output", o);
    for (size_t k = bodies.size() - 1; k-- > 0;) {
      SNUG_ASSIGN_OR_RETURN(result[o], nodes.Choose(taken[k], outputs[k][o], result[o], absl::StrCat(suffix, "/", k)));
    }
    if (options.in_range()) continue;
    // A selector that is no body's number gives NaN.
    SNUG_ASSIGN_OR_RETURN(const ValueId below, nodes.IsAbove(selector, -1, absl::StrCat(suffix, "/from_first")));
    SNUG_ASSIGN_OR_RETURN(const ValueId above, nodes.IsAbove(selector, static_cast<int64_t>(bodies.size()) - 1,
                                                             absl::StrCat(suffix, "/beyond_last")));
    SNUG_ASSIGN_OR_RETURN(result[o], nodes.Spoil(above, result[o], absl::StrCat(suffix, "/above")));
    SNUG_ASSIGN_OR_RETURN(result[o], nodes.SpoilRest(below, result[o], absl::StrCat(suffix, "/below")));
  }
  return result;
}

// The result has no control flow in it.
absl::StatusOr<Graph> Unrolled(const Graph& graph, const OpRegistry& registry, bool training);

absl::StatusOr<std::unordered_map<ValueId, ValueId>> Unroll(Graph& graph, const OpRegistry& registry, bool training) {
  std::unordered_map<ValueId, ValueId> replaced;
  std::vector<NodeId> done;
  GraphBuilder builder(registry, &graph);
  for (const NodeId id : graph.ProgramOrder()) {
    for (ValueId& input : graph.node(id).inputs) {
      const auto it = replaced.find(input);
      if (it != replaced.end()) input = it->second;
    }
    if (graph.node(id).subgraphs.empty()) continue;
    std::vector<Graph> bodies;
    for (const auto& subgraph : graph.node(id).subgraphs) {
      SNUG_ASSIGN_OR_RETURN(Graph body, Unrolled(*subgraph, registry, training));
      bodies.push_back(std::move(body));
    }
    graph.SetInsertionPoint(id);
    absl::StatusOr<std::vector<ValueId>> outputs = graph.node(id).op == "loop"
                                                       ? UnrollLoop(builder, id, bodies[0], training)
                                                       : UnrollBranch(builder, id, bodies, training);
    if (!outputs.ok()) {
      return NodeError(graph.node(id).loc, graph.node(id).name, graph.node(id).op, outputs.status());
    }
    for (size_t i = 0; i < outputs->size(); ++i) replaced[graph.node(id).outputs[i]] = (*outputs)[i];
    done.push_back(id);
  }
  graph.SetInsertionPoint(NodeId());
  graph.ReplaceUses(replaced);
  for (const NodeId id : done) graph.RemoveNode(id);
  return replaced;
}

absl::StatusOr<Graph> Unrolled(const Graph& graph, const OpRegistry& registry, bool training) {
  Graph copy = graph;
  SNUG_RETURN_IF_ERROR(Unroll(copy, registry, training));
  return copy;
}

}  // namespace

bool HasControlFlow(const Graph& graph) {
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    if (!graph.node(id).subgraphs.empty()) return true;
  }
  return false;
}

int64_t CountUnrolled(const Graph& graph) {
  int64_t count = 0;
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    int64_t inside = 1;
    for (const auto& subgraph : node.subgraphs) inside = std::min(kMost, inside + CountUnrolled(*subgraph));
    const int64_t rounds = node.op == "loop" ? std::max<int64_t>(node.options.Get<proto::LoopNode>().rounds(), 1) : 1;
    inside = inside > kMost / rounds ? kMost : inside * rounds;
    count = std::min(kMost, count + inside);
  }
  return count;
}

absl::Status UnrollControlFlow(Imported& imported, const OpRegistry& registry, bool training) {
  std::unordered_map<ValueId, ValueId> replaced;
  SNUG_ASSIGN_OR_RETURN(replaced, Unroll(imported.graph, registry, training));
  for (NodeSpec& update : imported.statistic_updates) {
    for (ValueId& input : update.inputs) {
      const auto it = replaced.find(input);
      if (it != replaced.end()) input = it->second;
    }
  }
  return absl::OkStatus();
}

}  // namespace snug::core
