#include "engine/compile/liveness.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace snug {
namespace {

class LivenessFinder {
 public:
  LivenessFinder(const Graph& graph, const OpRegistry& registry, const Order& order,
                 const std::vector<KernelChoice>& kernels)
      : graph_(graph),
        registry_(registry),
        order_(order),
        kernels_(kernels),
        last_(static_cast<int32_t>(order.size())) {
    result_.buffer_of_value.assign(graph.value_capacity(), -1);
    result_.workspace_of_node.assign(graph.node_capacity(), -1);
    result_.variable_of_value.assign(graph.value_capacity(), VariableId());
  }

  Liveness Run() {
    for (const Variable& variable : graph_.variables()) {
      result_.state.buffers.push_back(
          {.name = variable.name, .size_bytes = variable.type.size_bytes(), .first = 0, .last = last_});
      result_.variable_of_value[static_cast<size_t>(variable.value.index)] = graph_.value(variable.value).variable;
    }
    for (const ValueId input : graph_.inputs()) NewBuffer(input, 0);  // filled before the first position
    for (int32_t t = 0; t < last_; ++t) Visit(order_[static_cast<size_t>(t)], t);
    for (const Output& output : graph_.outputs) Touch(output.value, last_);  // fetched after the last position
    return std::move(result_);
  }

 private:
  void NewBuffer(ValueId value, int32_t time) {
    result_.buffer_of_value[static_cast<size_t>(value.index)] = static_cast<int>(result_.step.buffers.size());
    result_.step.buffers.push_back(
        {.name = graph_.value(value).name, .size_bytes = graph_.type(value).size_bytes(), .first = time, .last = time});
  }

  void Touch(ValueId value, int32_t time) {
    const int buffer = result_.buffer_of_value[static_cast<size_t>(value.index)];
    if (buffer < 0) return;
    int32_t& last = result_.step.buffers[static_cast<size_t>(buffer)].last;
    last = std::max(last, time);
  }

  void Visit(NodeId id, int32_t time) {
    const Node& node = graph_.node(id);
    const bool view = registry_.Get(node.op).traits.view;
    for (const ValueId input : node.inputs) {
      if (input.valid()) Touch(input, time);
    }
    for (const ValueId output : node.outputs) {
      if (!view) {
        NewBuffer(output, time);
        continue;
      }
      const auto root = static_cast<size_t>(node.inputs[0].index);
      result_.buffer_of_value[static_cast<size_t>(output.index)] = result_.buffer_of_value[root];
      result_.variable_of_value[static_cast<size_t>(output.index)] = result_.variable_of_value[root];
    }
    const int64_t workspace = kernels_[static_cast<size_t>(id.index)].workspace_bytes;
    if (workspace > 0) {
      result_.workspace_of_node[static_cast<size_t>(id.index)] = static_cast<int>(result_.step.buffers.size());
      result_.step.buffers.push_back(
          {.name = absl::StrCat(node.name, "/workspace"), .size_bytes = workspace, .first = time, .last = time});
    }
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  const Order& order_;
  const std::vector<KernelChoice>& kernels_;
  const int32_t last_;
  Liveness result_;
};

}  // namespace

Liveness FindLiveness(const Graph& graph, const OpRegistry& registry, const Order& order,
                      const std::vector<KernelChoice>& kernels) {
  return LivenessFinder(graph, registry, order, kernels).Run();
}

}  // namespace snug
