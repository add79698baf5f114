#include "engine/compile/schedule/accesses.h"

#include <algorithm>

#include "engine/base/status.h"

namespace snug::core {

Region ValueRegions::Of(ValueId value) const {
  const auto index = static_cast<size_t>(value.index);
  const int64_t bytes = graph_.type(value).size_bytes();
  if (const VariableId variable = tasks_.variable_of_value[index]; variable.valid()) {
    const int64_t begin = state_.offsets[static_cast<size_t>(variable.index)];
    return {static_cast<int32_t>(Arena::kState), begin, begin + bytes};
  }
  if (const int32_t caller = tasks_.caller_of_value[index]; caller >= 0) {
    const int64_t begin = tasks_.caller_begin[static_cast<size_t>(caller)] + tasks_.offset_of_value[index];
    return {static_cast<int32_t>(Arena::kCaller), begin, begin + bytes};
  }
  const int32_t buffer = tasks_.buffer_of_value[index];
  SNUG_CHECK_MSG(buffer >= 0, graph_.value(value).name);
  const int64_t begin = step_.offsets[static_cast<size_t>(buffer)] + tasks_.offset_of_value[index];
  return {static_cast<int32_t>(Arena::kStep), begin, begin + bytes};
}

Region ValueRegions::OfBuffer(int32_t buffer) const {
  const int64_t begin = step_.offsets[static_cast<size_t>(buffer)];
  return {static_cast<int32_t>(Arena::kStep), begin,
          begin + tasks_.tasks.values[static_cast<size_t>(buffer)].size_bytes};
}

Region ValueRegions::OfWorkspace(NodeId node) const {
  const int32_t buffer = tasks_.workspace_of_node[static_cast<size_t>(node.index)];
  return buffer < 0 ? Region{static_cast<int32_t>(Arena::kStep), 0, 0} : OfBuffer(buffer);
}

void ValueRegions::Add(int32_t task, ValueId value, bool write, std::vector<Access>* accesses) const {
  const int32_t buffer = tasks_.buffer_of_value[static_cast<size_t>(value.index)];
  if (buffer < 0) {  // it lies on a Variable's or the caller's bytes, which nothing else ever uses
    accesses->push_back({Of(value), write});
    return;
  }
  const memory::TaskValue& whole = tasks_.tasks.values[static_cast<size_t>(buffer)];
  Region part = Of(value);
  const bool all = memory::AlignUp(part.end - part.begin, whole.alignment) == whole.size_bytes;
  accesses->push_back({all ? part : OfBuffer(buffer), write && whole.producer == task});
  if (tasks_.in_parts[static_cast<size_t>(buffer)] == 0) return;
  part.arena = static_cast<int32_t>(Arena::kParts);
  accesses->push_back({part, write});
}

std::vector<Access> ValueRegions::AccessesOf(int32_t task) const {
  const NodeId id = tasks_.node_of_task[static_cast<size_t>(task)];
  const Node& node = graph_.node(id);
  const std::vector<VariableId>& mutated = tasks_.mutated_by_task[static_cast<size_t>(task)];
  std::vector<Access> accesses;
  for (const ValueId input : node.inputs) {
    if (!input.valid()) continue;
    const VariableId variable = tasks_.variable_of_value[static_cast<size_t>(input.index)];
    const bool write = variable.valid() && std::find(mutated.begin(), mutated.end(), variable) != mutated.end();
    Add(task, input, write, &accesses);
  }
  for (const ValueId output : node.outputs) Add(task, output, /*write=*/true, &accesses);
  if (const Region workspace = OfWorkspace(id); workspace.begin < workspace.end) {
    accesses.push_back({workspace, /*write=*/true});
  }
  return accesses;
}

}  // namespace snug::core
