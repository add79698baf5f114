#include "engine/compile/control/stash.h"

#include <absl/strings/strip.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "ops/graph_builder.h"
#include "proto/loops.pb.h"

namespace snug::core {
namespace {

// Of this loop's own rounds. What is collected anyway is no stash.
int64_t OwnStash(const Graph& graph, const Node& loop, const std::set<ValueId>& put_out) {
  int64_t bytes = 0;
  for (const proto::NormalLoop::Along& collect : loop.options.Get<proto::NormalLoop>().collect()) {
    const ValueId whole = loop.outputs[static_cast<size_t>(collect.result())];
    if (collect.stash() && !put_out.contains(whole)) bytes += graph.type(whole).size_bytes();
  }
  return bytes;
}

struct Inside {
  int64_t own = 0;     // of the loops of a body
  int64_t deeper = 0;  // of loops inside these
};

// What the loops of a body put out is a stash of the loop around them, and counted there.
Inside StashesInside(const Graph& body) {
  std::set<ValueId> put_out;
  for (const Output& output : body.outputs) put_out.insert(output.value);
  Inside inside;
  for (NodeId id = body.first_node(); id.valid(); id = body.node(id).next) {
    const Node& node = body.node(id);
    if (node.subgraphs.empty()) continue;
    inside.own += OwnStash(body, node, put_out);
    const Inside below = StashesInside(*node.subgraphs[0]);
    inside.deeper = std::max(inside.deeper, below.own + below.deeper);
  }
  return inside;
}

double Flops(const Graph& body, const OpRegistry& registry) {
  double flops = 0;
  for (NodeId id = body.first_node(); id.valid(); id = body.node(id).next) {
    const Node& node = body.node(id);
    if (node.subgraphs.empty()) {
      flops += CostOf(registry.Get(node.op), TypesOf(body, node)).flops;
    } else {
      flops +=
          Flops(*node.subgraphs[0], registry) * static_cast<double>(node.options.Get<proto::NormalLoop>().rounds());
    }
  }
  return flops;
}

}  // namespace

std::vector<LoopStash> StashesOf(const Graph& graph, const OpRegistry& registry) {
  std::vector<LoopStash> stashes;
  std::unordered_map<NodeId, size_t> number;
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    if (node.op != "loop") continue;
    const Graph& body = *node.subgraphs[0];
    const Inside inside = StashesInside(body);
    if (node.phase != Phase::kForward) {  // the gradient of a loop that came before
      LoopStash& stash = stashes[number.at(node.forward)];
      if (stash.chunk > 0) {
        stash.again = inside.own;
        stash.within = std::max(stash.within, inside.deeper);
      } else {
        stash.within = std::max(stash.within, inside.own + inside.deeper);
      }
      continue;
    }
    const auto& options = node.options.Get<proto::NormalLoop>();
    number[id] = stashes.size();
    LoopStash& stash = stashes.emplace_back();
    stash.loop = node.name;
    stash.loc = node.loc;
    stash.rounds = options.rounds();
    stash.kept = OwnStash(graph, node, {});
    stash.within = inside.own + inside.deeper;
    stash.flops = Flops(body, registry) * static_cast<double>(options.rounds());
    if (!options.recompute()) continue;
    stash.loop = std::string(absl::StripSuffix(node.name, "/chunks"));
    const Node& rounds = body.node(body.first_node());
    stash.chunk = rounds.options.Get<proto::NormalLoop>().rounds();
    stash.rounds *= stash.chunk;
  }
  return stashes;
}

int64_t StashBytes(const std::vector<LoopStash>& stashes) {
  int64_t kept = 0, most = 0;
  for (const LoopStash& stash : stashes) {
    kept += stash.kept;
    most = std::max(most, stash.again + stash.within);
  }
  return kept + most;
}

}  // namespace snug::core
