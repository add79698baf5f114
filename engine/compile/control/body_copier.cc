#include "engine/compile/control/body_copier.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/hash.h"

namespace snug::core {

std::vector<bool> BodyCopier::NeededFor(const std::vector<int>& outputs) const {
  std::vector<bool> needed(body_.node_capacity(), false);
  const auto need = [&](ValueId value) {
    const NodeId producer = value.valid() ? body_.value(value).producer : NodeId();
    if (producer.valid()) needed[static_cast<size_t>(producer.index)] = true;
  };
  for (const int output : outputs) need(body_.outputs[static_cast<size_t>(output)].value);
  for (NodeId id = body_.last_node(); id.valid(); id = body_.node(id).previous) {
    if (!needed[static_cast<size_t>(id.index)]) continue;
    for (const ValueId input : body_.node(id).inputs) need(input);
  }
  return needed;
}

bool BodyCopier::Depends(int output, int input) const {
  const ValueId of_input = body_.inputs()[static_cast<size_t>(input)];
  if (body_.outputs[static_cast<size_t>(output)].value == of_input) return true;
  const std::vector<bool> needed = NeededFor({output});
  for (NodeId id = body_.first_node(); id.valid(); id = body_.node(id).next) {
    const std::vector<ValueId>& inputs = body_.node(id).inputs;
    if (needed[static_cast<size_t>(id.index)] && std::find(inputs.begin(), inputs.end(), of_input) != inputs.end()) {
      return true;
    }
  }
  return false;
}

std::vector<ValueId> BodyCopier::Copy(const std::vector<ValueId>& feeds, const std::vector<int>& outputs,
                                      const std::string& name, const std::string& part) {
  std::vector<ValueId> copies(body_.value_capacity());  // indexed by value of the body
  const auto copy = [&](ValueId value) { return value.valid() ? copies[static_cast<size_t>(value.index)] : ValueId(); };
  for (size_t i = 0; i < feeds.size(); ++i) copies[static_cast<size_t>(body_.inputs()[i].index)] = feeds[i];
  const std::vector<bool> needed = NeededFor(outputs);
  Graph& graph = builder_.graph();
  for (NodeId id = body_.first_node(); id.valid(); id = body_.node(id).next) {
    if (!needed[static_cast<size_t>(id.index)]) continue;
    const Node& node = body_.node(id);
    NodeSpec spec{.name = absl::StrCat(name, part, "/", node.name),
                  .op = node.op,
                  .options = node.options,
                  .loc = node.loc,
                  .phase = node.phase,
                  .random_id = HashName(absl::StrCat(name, ":", node.random_id))};
    for (const ValueId input : node.inputs) spec.inputs.push_back(copy(input));
    for (const ValueId output : node.outputs) spec.output_types.push_back(body_.type(output));
    const NodeId added = graph.AddNode(std::move(spec));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      copies[static_cast<size_t>(node.outputs[i].index)] = graph.node(added).outputs[i];
    }
  }
  std::vector<ValueId> result;
  for (const int output : outputs) result.push_back(copy(body_.outputs[static_cast<size_t>(output)].value));
  return result;
}

}  // namespace snug::core
