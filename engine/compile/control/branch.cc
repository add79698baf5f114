#include "engine/compile/control/branch.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/control/body_copier.h"
#include "engine/compile/control/compile_loop.h"
#include "engine/compile/control/control_nodes.h"
#include "proto/internal.pb.h"
#include "proto/loops.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

// A body that runs alone takes some calls and copies of its outputs, which others have to be worth: so many bytes
// moved, where eight operations count as one. That is about a tenth of a millisecond.
constexpr double kLeastSaved = 1 << 20;

double Work(const Graph& body, const OpRegistry& registry) {
  const Cost cost = CostOfBody(body, registry);
  return cost.bytes + cost.flops / 8;
}

}  // namespace

bool RunsTakenBodyAlone(const Graph& graph, NodeId branch, const std::vector<Graph>& bodies, const OpRegistry& registry,
                        LoopRule rule) {
  const Node& node = graph.node(branch);
  // Samples that take bodies of their own need them all. A selector that is no body's number gives NaN, which integers
  // do not have.
  const bool possible = graph.type(node.inputs[0]).num_elements() == 1 &&
                        absl::c_all_of(node.outputs, [&](ValueId v) { return IsFloating(graph.type(v).dtype); });
  if (!possible || rule == LoopRule::kUnrolled) return false;
  if (rule == LoopRule::kRolled) return true;
  double all = 0, most = 0;
  for (const Graph& body : bodies) {
    const double work = Work(body, registry);
    all += work;
    most = std::max(most, work);
  }
  return all - most >= kLeastSaved;
}

absl::StatusOr<std::vector<ValueId>> SpreadBranch(GraphBuilder& builder, NodeId id, const std::vector<Graph>& bodies,
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

absl::StatusOr<std::vector<ValueId>> RunTakenBody(GraphBuilder& builder, NodeId id, std::vector<Graph> bodies) {
  Graph& graph = builder.graph();
  ControlNodes nodes(builder, id);
  const Node branch = graph.node(id);  // a copy: nodes move when others are added
  const bool in_range = branch.options.Get<proto::BranchNode>().in_range();
  std::vector<ValueId> result;
  for (size_t o = 0; o < branch.outputs.size(); ++o) {
    const ValueType type = graph.type(branch.outputs[o]);
    const double none_taken = in_range ? 0 : std::numeric_limits<double>::quiet_NaN();
    SNUG_ASSIGN_OR_RETURN(result.emplace_back(),
                          nodes.Fill(type.dtype, type.shape, none_taken, absl::StrCat("none_taken", o)));
  }
  for (size_t k = 0; k < bodies.size(); ++k) {
    const std::string number = absl::StrCat(k);
    SNUG_ASSIGN_OR_RETURN(ValueId rounds, nodes.Equals(branch.inputs[0], static_cast<int64_t>(k), number + "/taken"));
    SNUG_ASSIGN_OR_RETURN(rounds, nodes.Cast(rounds, DType::kInt32, number + "/rounds"));
    Graph& body = bodies[k];
    proto::NormalLoop options;
    options.set_rounds(1);
    options.set_rolled(true);
    std::vector<ValueId> feeds(branch.inputs.begin() + 1, branch.inputs.end());
    std::vector<ValueType> types;
    for (size_t o = 0; o < result.size(); ++o) {
      types.push_back(graph.type(result[o]));
      std::string name = absl::StrCat("not_taken", o);
      while (body.FindValue(name).valid()) name += "'";
      proto::NormalLoop::Carry& carry = *options.add_carry();
      carry.set_input(static_cast<int32_t>(body.inputs().size()));
      carry.set_output(static_cast<int32_t>(o));
      carry.set_result(static_cast<int32_t>(o));
      body.AddInput(std::move(name), types.back());
      feeds.push_back(result[o]);
    }
    options.set_only_rounds(static_cast<int32_t>(feeds.size()));
    feeds.push_back(rounds);
    const NodeId loop = graph.AddNode({.name = absl::StrCat(nodes.name(), "/", k),
                                       .op = "loop",
                                       .options = proto::MakeOptions(options),
                                       .inputs = std::move(feeds),
                                       .output_types = std::move(types),
                                       .loc = branch.loc,
                                       .phase = branch.phase,
                                       .subgraphs = {std::make_shared<const Graph>(std::move(body))}});
    result = graph.node(loop).outputs;
  }
  return result;
}

}  // namespace snug::core
