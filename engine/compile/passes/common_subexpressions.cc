// Merges common subexpressions: two nodes with the same op, options and inputs compute the same, so the later one goes.
// Random nodes draw the same numbers if they have the same key, so the key is compared too. Reads of a Variable before
// and after a mutation differ: each mutation starts a new version.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/compile/passes/pass.h"

namespace snug::core {

absl::Status MergeCommonSubexpressions(Graph& graph, const OpRegistry& registry) {
  std::unordered_map<std::string, NodeId> seen;
  std::unordered_map<ValueId, ValueId> replaced;
  std::vector<int> version(graph.value_capacity(), 0);
  const auto current = [&replaced](ValueId id) {
    const auto it = replaced.find(id);
    return it == replaced.end() ? id : it->second;
  };
  for (const NodeId id : graph.ProgramOrder()) {
    const Node& node = graph.node(id);
    const OpDef& op = registry.Get(node.op);
    bool mutates = false;
    for (const Alias& alias : op.aliases) {
      if (alias.kind != Alias::Kind::kMutates) continue;
      mutates = true;
      ++version[static_cast<size_t>(node.inputs[static_cast<size_t>(alias.input)].index)];
    }
    if (mutates || op.traits.side_effect || !node.subgraphs.empty()) continue;
    std::string key = absl::StrCat(node.op, "|", op.traits.random ? node.random_id : 0, "|");
    for (const ValueId input : node.inputs) {
      const ValueId root = current(input);
      absl::StrAppend(&key, root.index, ".", input.valid() ? version[static_cast<size_t>(root.index)] : 0, ",");
    }
    absl::StrAppend(&key, "|", node.options.type(), "|", node.options.bytes());
    const auto [it, is_new] = seen.emplace(std::move(key), id);
    if (is_new) continue;
    const Node& first = graph.node(it->second);
    for (size_t i = 0; i < node.outputs.size(); ++i) replaced[node.outputs[i]] = first.outputs[i];
    graph.RemoveNode(id);
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug::core
