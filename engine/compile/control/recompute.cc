#include "engine/compile/control/recompute.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/control/control_nodes.h"
#include "proto/loops.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

bool DrawsNumbers(const Graph& graph, const OpRegistry& registry) {
  return absl::c_any_of(graph.ProgramOrder(), [&](NodeId id) {
    const Node& node = graph.node(id);
    return registry.Get(node.op).traits.random ||
           absl::c_any_of(node.subgraphs, [&](const auto& body) { return DrawsNumbers(*body, registry); });
  });
}

std::string WhyNot(const proto::NormalLoop& options, const Graph& body, const OpRegistry& registry, int64_t chunk) {
  if (options.has_goes_on()) return "it may end early";
  if (options.has_index()) return "its rounds read their number";
  if (DrawsNumbers(body, registry)) return "its rounds draw random numbers";
  if (options.carry().empty()) return "it carries nothing, so that its rounds could run in any sequence";
  if (chunk == 1 || chunk == options.rounds())
    return absl::StrCat("nothing near divides its ", options.rounds(), " rounds");
  const auto full = [&](ValueId value) { return body.type(value).shape.rank() + 2 > kMaxRank; };
  const bool too_many =
      absl::c_any_of(options.scan(), [&](const auto& s) { return full(body.inputs()[s.port()]); }) ||
      absl::c_any_of(options.collect(), [&](const auto& c) { return full(body.outputs[c.port()].value); });
  return too_many ? "a value has too many axes" : "";
}

int64_t NearestDivisor(int64_t n, double wanted) {
  int64_t best = 1;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    for (const int64_t divisor : {d, n / d}) {
      const auto distance = [&](int64_t k) { return std::abs(std::log(static_cast<double>(k) / wanted)); };
      if (distance(divisor) < distance(best)) best = divisor;
    }
  }
  return best;
}

// The shape with axis `axis` as two.
Shape Divided(const Shape& shape, int axis, int64_t outer, int64_t inner) {
  Shape divided;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i == axis) divided.Append(outer);
    divided.Append(i == axis ? inner : shape[i]);
  }
  return divided;
}

}  // namespace

absl::StatusOr<std::vector<ValueId>> SplitForRecomputation(GraphBuilder& builder, NodeId loop, int64_t rounds,
                                                           LoopChoice& choice, std::vector<ValueId> outputs) {
  Graph& graph = builder.graph();
  const Node node = graph.node(loop);
  proto::NormalLoop inner = node.options.Get<proto::NormalLoop>();
  const int64_t all = inner.rounds();
  const double wanted = rounds == kSquareRoot ? std::sqrt(static_cast<double>(all)) : static_cast<double>(rounds);
  const int64_t chunk = NearestDivisor(all, wanted);
  choice.why_not = WhyNot(inner, *node.subgraphs[0], builder.registry(), chunk);
  if (!choice.why_not.empty()) return outputs;
  choice.chunk = chunk;

  // The loop around has the same ports: input i of its body is input i of the loop.
  proto::NormalLoop outer = inner;
  outer.set_rounds(all / chunk);
  outer.set_recompute(true);
  inner.set_rounds(chunk);
  Graph body;
  body.name = absl::StrCat(node.subgraphs[0]->name, "/chunk");
  graph.SetInsertionPoint(loop);
  ControlNodes around(builder, loop);
  std::vector<ValueId> feeds = node.inputs;
  std::vector<ValueType> types;
  for (const ValueId feed : feeds) types.push_back(graph.type(feed));
  for (int k = 0; k < outer.scan_size(); ++k) {
    const auto port = static_cast<size_t>(outer.scan(k).port());
    const int axis = outer.scan(k).axis();
    types[port].shape = types[port].shape.WithDim(axis, chunk);
    SNUG_ASSIGN_OR_RETURN(feeds[port],
                          around.Reshape(feeds[port], Divided(graph.type(feeds[port]).shape, axis, all / chunk, chunk),
                                         absl::StrCat("chunks", k)));
  }
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < feeds.size(); ++i) {
    const Value& like = node.subgraphs[0]->value(node.subgraphs[0]->inputs()[i]);
    inputs.push_back(body.AddInput(like.name, types[i], like.max_value));
  }
  std::vector<ValueType> made;
  for (const ValueId output : node.outputs) made.push_back(graph.type(output));
  std::vector<ValueType> made_by_chunk = made, made_by_all = made;
  for (const proto::NormalLoop::Along& collect : outer.collect()) {
    const auto result = static_cast<size_t>(collect.result());
    made_by_chunk[result].shape = made[result].shape.WithDim(collect.axis(), chunk);
    made_by_all[result].shape = Divided(made[result].shape, collect.axis(), all / chunk, chunk);
  }
  const NodeId rounds_of_chunk = body.AddNode({.name = "rounds",
                                               .op = "loop",
                                               .options = proto::MakeOptions(inner),
                                               .inputs = inputs,
                                               .output_types = made_by_chunk,
                                               .loc = node.loc,
                                               .subgraphs = node.subgraphs});
  for (size_t o = 0; o < made.size(); ++o) {
    body.outputs.push_back({absl::StrCat("result", o), body.node(rounds_of_chunk).outputs[o]});
  }
  for (proto::NormalLoop::Carry& carry : *outer.mutable_carry()) carry.set_output(carry.result());
  for (proto::NormalLoop::Along& collect : *outer.mutable_collect()) collect.set_port(collect.result());
  const NodeId split = graph.AddNode({.name = absl::StrCat(node.name, "/chunks"),
                                      .op = "loop",
                                      .options = proto::MakeOptions(outer),
                                      .inputs = feeds,
                                      .output_types = made_by_all,
                                      .loc = node.loc,
                                      .subgraphs = {std::make_shared<const Graph>(std::move(body))}});
  std::vector<ValueId> results = graph.node(split).outputs;
  for (int k = 0; k < outer.collect_size(); ++k) {
    const auto result = static_cast<size_t>(outer.collect(k).result());
    SNUG_ASSIGN_OR_RETURN(results[result],
                          around.Reshape(results[result], made[result].shape, absl::StrCat("collect", k)));
  }
  graph.RemoveNode(loop);
  return results;
}

}  // namespace snug::core
