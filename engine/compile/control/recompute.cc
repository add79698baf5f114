#include "engine/compile/control/recompute.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/control/control_nodes.h"
#include "engine/compile/control/hoist_inputs.h"
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

std::string WhyNot(const proto::NormalLoop& options, const Graph& body, const OpRegistry& registry) {
  if (options.has_goes_on()) return "it may end early";
  if (options.has_index()) return "its rounds read their number";
  if (DrawsNumbers(body, registry)) return "its rounds draw random numbers";
  if (options.carry().empty()) return "it carries nothing, so that its rounds could run in any sequence";
  if (options.rounds() == 1) return "it has one round only";
  return "";
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

// Puts loops over chunks into the place of a loop.
class Splitter {
 public:
  Splitter(GraphBuilder& builder, NodeId loop, const ChunkOptions& options, int64_t chunk)
      : builder_(builder),
        graph_(builder.graph()),
        node_(graph_.node(loop)),
        inner_(node_.options.Get<proto::NormalLoop>()),
        hoist_(options.hoist),
        chunk_(chunk),
        around_(builder, loop) {}

  absl::StatusOr<std::vector<ValueId>> Run() {
    const int64_t chunks = inner_.rounds() / chunk_, rest = inner_.rounds() % chunk_;
    std::vector<ValueId> results;
    SNUG_ASSIGN_OR_RETURN(results, AddChunks(kChunks, chunks, chunk_, node_.inputs));
    if (rest == 0) return results;
    std::vector<ValueId> last;
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> feeds, FeedsOfLast(results, rest));
    SNUG_ASSIGN_OR_RETURN(last, AddChunks(kLastChunk, 1, rest, feeds));
    for (int k = 0; k < inner_.collect_size(); ++k) {
      const proto::NormalLoop::Along& collect = inner_.collect(k);
      const auto result = static_cast<size_t>(collect.result());
      std::vector<ValueId> parts = {results[result], last[result]};
      if (collect.reverse()) std::swap(parts[0], parts[1]);
      SNUG_ASSIGN_OR_RETURN(last[result], around_.Join(std::move(parts), collect.axis(), absl::StrCat("collect", k)));
    }
    return last;
  }

 private:
  // What the last chunk gets: carries as the others left them, and what these did not read of the scanned values.
  absl::StatusOr<std::vector<ValueId>> FeedsOfLast(const std::vector<ValueId>& results, int64_t rest) {
    std::vector<ValueId> feeds = node_.inputs;
    for (const proto::NormalLoop::Carry& carry : inner_.carry()) {
      feeds[static_cast<size_t>(carry.input())] = results[static_cast<size_t>(carry.result())];
    }
    for (int k = 0; k < inner_.scan_size(); ++k) {
      const proto::NormalLoop::Along& scan = inner_.scan(k);
      ValueId& feed = feeds[static_cast<size_t>(scan.port())];
      const int64_t begin = scan.reverse() ? 0 : inner_.rounds() - rest;
      SNUG_ASSIGN_OR_RETURN(feed, around_.Part(feed, scan.axis(), begin, begin + rest, absl::StrCat("last", k)));
    }
    return feeds;
  }

  // Adds a loop of `chunks` rounds, each of which runs `rounds` of the loop. It has the same ports: input i of its body
  // is input i of the loop. Returns its outputs, which are those of the loop, as far as these rounds make them.
  absl::StatusOr<std::vector<ValueId>> AddChunks(absl::string_view suffix, int64_t chunks, int64_t rounds,
                                                 const std::vector<ValueId>& feeds) {
    proto::NormalLoop outer = inner_, inner = inner_;
    outer.set_rounds(chunks);
    outer.set_recompute(true);
    inner.set_rounds(rounds);
    Graph body;
    body.name = absl::StrCat(node_.subgraphs[0]->name, "/chunk");
    std::vector<ValueType> types;
    for (const ValueId feed : feeds) types.push_back(graph_.type(feed));
    for (const proto::NormalLoop::Along& scan : outer.scan()) {
      Shape& shape = types[static_cast<size_t>(scan.port())].shape;
      shape = shape.WithDim(scan.axis(), rounds);
    }
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < feeds.size(); ++i) {
      const Value& like = node_.subgraphs[0]->value(node_.subgraphs[0]->inputs()[i]);
      inputs.push_back(body.AddInput(like.name, types[i], like.max_value));
    }
    std::vector<ValueType> by_chunk;
    for (const ValueId output : node_.outputs) by_chunk.push_back(graph_.type(output));
    std::vector<ValueType> by_all = by_chunk;
    for (const proto::NormalLoop::Along& collect : outer.collect()) {
      const auto result = static_cast<size_t>(collect.result());
      by_chunk[result].shape = by_chunk[result].shape.WithDim(collect.axis(), rounds);
      by_all[result].shape = by_all[result].shape.WithDim(collect.axis(), rounds * chunks);
    }
    const NodeId rounds_of_chunk = body.AddNode({.name = "rounds",
                                                 .op = "loop",
                                                 .options = proto::MakeOptions(inner),
                                                 .inputs = inputs,
                                                 .output_types = by_chunk,
                                                 .loc = node_.loc,
                                                 .subgraphs = node_.subgraphs});
    for (size_t o = 0; o < by_chunk.size(); ++o) {
      body.outputs.push_back({absl::StrCat("result", o), body.node(rounds_of_chunk).outputs[o]});
    }
    if (hoist_) SNUG_RETURN_IF_ERROR(HoistFromChunk(body, builder_.registry(), rounds_of_chunk));
    for (proto::NormalLoop::Carry& carry : *outer.mutable_carry()) carry.set_output(carry.result());
    for (proto::NormalLoop::Along& collect : *outer.mutable_collect()) collect.set_port(collect.result());
    const NodeId split = graph_.AddNode({.name = absl::StrCat(node_.name, suffix),
                                         .op = "loop",
                                         .options = proto::MakeOptions(outer),
                                         .inputs = feeds,
                                         .output_types = by_all,
                                         .loc = node_.loc,
                                         .subgraphs = {std::make_shared<const Graph>(std::move(body))}});
    return graph_.node(split).outputs;
  }

  GraphBuilder& builder_;
  Graph& graph_;
  const Node node_;  // the loop: a copy, as nodes move when others are added
  const proto::NormalLoop inner_;
  const bool hoist_;
  const int64_t chunk_;
  ControlNodes around_;
};

}  // namespace

int64_t ChunkOf(int64_t rounds, int64_t wanted) {
  if (wanted != kSquareRoot) return std::min(wanted, rounds);
  constexpr double kNear = 1.5;  // then no more than a twelfth is kept more than with the root itself
  const double root = std::sqrt(static_cast<double>(rounds));
  const int64_t divisor = NearestDivisor(rounds, root);
  const bool near = static_cast<double>(divisor) <= kNear * root && root <= kNear * static_cast<double>(divisor);
  return near ? divisor : std::llround(root);
}

absl::StatusOr<std::vector<ValueId>> SplitForRecomputation(GraphBuilder& builder, NodeId loop,
                                                           const ChunkOptions& options, LoopChoice& choice,
                                                           std::vector<ValueId> outputs) {
  Graph& graph = builder.graph();
  const auto& normal = graph.node(loop).options.Get<proto::NormalLoop>();
  choice.why_not = WhyNot(normal, *graph.node(loop).subgraphs[0], builder.registry());
  if (!choice.why_not.empty()) return outputs;
  choice.chunk = ChunkOf(normal.rounds(), options.rounds);
  graph.SetInsertionPoint(loop);
  SNUG_ASSIGN_OR_RETURN(outputs, Splitter(builder, loop, options, choice.chunk).Run());
  graph.RemoveNode(loop);
  return outputs;
}

}  // namespace snug::core
