#include "engine/compile/control/loop_ports.h"

#include <absl/algorithm/container.h>

#include "proto/loops.pb.h"

namespace snug::core {
namespace {

// Whether nobody reads the value but rounds, each of which gets what one round has kept.
bool IsReadByRoundsAlone(const Graph& graph, ValueId stash) {
  if (absl::c_any_of(graph.outputs, [&](const Output& output) { return output.value == stash; })) return false;
  for (NodeId id = graph.value(stash).producer; id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != stash) continue;
      if (node.op != "loop") return false;
      const auto& scans = node.options.Get<proto::NormalLoop>().scan();
      const bool by_round = absl::c_any_of(scans, [&](const proto::NormalLoop::Along& scan) {
        return scan.stash() && scan.port() == static_cast<int>(i);
      });
      if (!by_round) return false;
    }
  }
  return true;
}

// Whether it is a stash of a loop of this graph.
bool IsStash(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  if (!producer.valid() || graph.node(producer).op != "loop") return false;
  const auto& collects = graph.node(producer).options.Get<proto::NormalLoop>().collect();
  const bool kept = absl::c_any_of(collects, [&](const proto::NormalLoop::Along& collect) {
    return collect.stash() && collect.result() == graph.value(value).output_index;
  });
  return kept && IsReadByRoundsAlone(graph, value);
}

}  // namespace

std::vector<SharedPorts> SharedPortsOf(const Graph& graph, NodeId loop) {
  const Node& node = graph.node(loop);
  const auto& options = node.options.Get<proto::NormalLoop>();
  std::vector<bool> captured(node.subgraphs[0]->inputs().size(), true);
  const auto is_another = [&](int input) { captured[static_cast<size_t>(input)] = false; };
  std::vector<SharedPorts> all;
  for (const proto::NormalLoop::Carry& carry : options.carry()) {
    is_another(carry.input());
    all.push_back({.input = carry.input(),
                   .feed = carry.input(),
                   .output = carry.output(),
                   .result = carry.has_result() ? carry.result() : -1});
  }
  for (const proto::NormalLoop::Along& scan : options.scan()) {
    is_another(scan.port());
    const ValueId stash = node.inputs[static_cast<size_t>(scan.port())];
    if (!scan.stash() || !IsStash(graph, stash)) continue;
    all.push_back({.input = scan.port(), .feed = scan.has_first() ? scan.first() : -1, .stash = stash});
  }
  for (const proto::NormalLoop::Along& collect : options.collect()) {
    const ValueId stash = node.outputs[static_cast<size_t>(collect.result())];
    if (collect.stash() && IsStash(graph, stash)) all.push_back({.output = collect.port(), .stash = stash});
  }
  if (options.has_index()) is_another(options.index());
  for (size_t i = 0; i < captured.size(); ++i) {
    if (captured[i]) all.push_back({.input = static_cast<int>(i), .feed = static_cast<int>(i)});
  }
  return all;
}

bool IsBodyOfBranch(const proto::NormalLoop& options) { return options.rounds() == 1 && options.has_only_rounds(); }

}  // namespace snug::core
