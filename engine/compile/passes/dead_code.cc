// Removes dead code: a node stays only if it mutates a Variable, has a side effect, or has an output that a node that
// stays reads.
#include <algorithm>
#include <vector>

#include "engine/compile/passes/pass.h"

namespace snug::core {

absl::Status RemoveDeadCode(Graph& graph, const OpRegistry& registry) {
  std::vector<bool> read(graph.value_capacity(), false);
  for (const Output& output : graph.outputs) read[static_cast<size_t>(output.value.index)] = true;
  for (const ValueId objective : graph.objectives) read[static_cast<size_t>(objective.index)] = true;
  std::vector<NodeId> order = graph.ProgramOrder();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& node = graph.node(*it);
    const OpDef& op = registry.Get(node.op);
    const bool acts =
        op.traits.side_effect || std::any_of(op.aliases.begin(), op.aliases.end(),
                                             [](const Alias& alias) { return alias.kind == Alias::Kind::kMutates; });
    const bool is_read = std::any_of(node.outputs.begin(), node.outputs.end(),
                                     [&](ValueId v) { return read[static_cast<size_t>(v.index)]; });
    if (!acts && !is_read) {
      graph.RemoveNode(*it);
      continue;
    }
    for (const ValueId input : node.inputs) {
      if (input.valid()) read[static_cast<size_t>(input.index)] = true;
    }
  }
  return absl::OkStatus();
}

}  // namespace snug::core
