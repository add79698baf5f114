#include "engine/compile/control/stash.h"

#include <absl/strings/match.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "engine/compile/control/compile_loop.h"
#include "engine/compile/control/recompute.h"
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

// Of what a loop's gradient reads of its rounds: what was computed for all of them at once, before the loop.
int64_t ComputedBefore(const Graph& graph, const Node& loop, std::set<ValueId>& counted) {
  if (loop.phase == Phase::kForward) return 0;
  int64_t bytes = 0;
  for (const proto::NormalLoop::Along& scan : loop.options.Get<proto::NormalLoop>().scan()) {
    const ValueId whole = loop.inputs[static_cast<size_t>(scan.port())];
    const NodeId producer = graph.value(whole).producer;
    if (scan.stash() || !producer.valid() || graph.node(producer).op == "loop") continue;
    if (counted.insert(whole).second) bytes += graph.type(whole).size_bytes();
  }
  return bytes;
}

// What the loops of a body put out is a stash of the loop around them, and counted there.
Inside StashesInside(const Graph& body) {
  std::set<ValueId> put_out;
  for (const Output& output : body.outputs) put_out.insert(output.value);
  std::set<ValueId> counted;
  Inside inside;
  for (NodeId id = body.first_node(); id.valid(); id = body.node(id).next) {
    const Node& node = body.node(id);
    if (node.subgraphs.empty()) continue;
    inside.own += OwnStash(body, node, put_out) + ComputedBefore(body, node, counted);
    const Inside below = StashesInside(*node.subgraphs[0]);
    inside.deeper = std::max(inside.deeper, below.own + below.deeper);
  }
  return inside;
}

const Node& LoopIn(const Graph& chunk) {
  NodeId id = chunk.first_node();
  while (chunk.node(id).op != "loop") id = chunk.node(id).next;
  return chunk.node(id);
}

int64_t RoundsOfChunk(const Graph& chunk) { return LoopIn(chunk).options.Get<proto::NormalLoop>().rounds(); }

// If the node is a loop's last chunk, which is shorter than the others, returns the loop of those: the carries come
// from there.
std::optional<NodeId> ChunksBefore(const Graph& graph, const Node& node) {
  const size_t slash = node.name.rfind('/');
  if (slash == std::string::npos || !absl::StartsWith(absl::string_view(node.name).substr(slash), kLastChunk)) {
    return std::nullopt;
  }
  const int first = node.options.Get<proto::NormalLoop>().carry(0).input();
  const NodeId before = graph.value(node.inputs[static_cast<size_t>(first)]).producer;
  const bool chunks = before.valid() && graph.node(before).op == "loop" &&
                      graph.node(before).options.Get<proto::NormalLoop>().recompute();
  return chunks ? std::optional<NodeId>(before) : std::nullopt;
}

}  // namespace

std::vector<LoopStash> StashesOf(const Graph& graph, const OpRegistry& registry) {
  struct Place {
    size_t stash = 0;  // the number of the loop's
    int64_t chunk = 0;
  };
  std::vector<LoopStash> stashes;
  std::unordered_map<NodeId, Place> places;
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    if (node.op != "loop") continue;
    const Graph& body = *node.subgraphs[0];
    const Inside inside = StashesInside(body);
    if (node.phase != Phase::kForward) {  // the gradient of a loop that came before
      const Place place = places.at(node.forward);
      LoopStash& stash = stashes[place.stash];
      if (place.chunk > 0) {
        stash.again = std::max(stash.again, inside.own);
        stash.again_by_round = std::max(stash.again_by_round, (inside.own + place.chunk - 1) / place.chunk);
        stash.within = std::max(stash.within, inside.deeper);
      } else {
        stash.within = std::max(stash.within, inside.own + inside.deeper);
      }
      continue;
    }
    const auto& options = node.options.Get<proto::NormalLoop>();
    const int64_t chunk = options.recompute() ? RoundsOfChunk(body) : 0;
    const int64_t rounds = options.rounds() * std::max<int64_t>(chunk, 1);
    Place& place = places[id];
    place.chunk = chunk;
    const std::optional<NodeId> others = chunk > 0 ? ChunksBefore(graph, node) : std::nullopt;
    if (others.has_value()) {  // the last chunk of that loop
      place.stash = places.at(*others).stash;
    } else {
      place.stash = stashes.size();
      stashes.push_back({.loop = std::string(chunk > 0 ? absl::StripSuffix(node.name, kChunks) : node.name),
                         .loc = node.loc,
                         .chunk = chunk});
    }
    LoopStash& stash = stashes[place.stash];
    const int64_t own = OwnStash(graph, node, {});
    stash.rounds += rounds;
    stash.kept += own;
    if (chunk > 0) stash.kept_by_chunk = std::max(stash.kept_by_chunk, own / options.rounds());
    stash.within = std::max(stash.within, inside.own + inside.deeper);
    stash.flops += CostOfBody(body, registry).flops * static_cast<double>(options.rounds());
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
