#include "engine/compile/tasks.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace snug {
namespace {

bool Mutates(const OpDef& op, size_t input) {
  return std::any_of(op.aliases.begin(), op.aliases.end(), [input](const Alias& alias) {
    return alias.kind == Alias::Kind::kMutates && static_cast<size_t>(alias.input) == input;
  });
}

class TaskFinder {
 public:
  TaskFinder(const Graph& graph, const OpRegistry& registry, const std::vector<KernelChoice>& kernels)
      : graph_(graph), registry_(registry), kernels_(kernels), uses_(graph.variables().size()) {
    result_.buffer_of_value.assign(graph.value_capacity(), -1);
    result_.variable_of_value.assign(graph.value_capacity(), VariableId());
    result_.workspace_of_node.assign(graph.node_capacity(), -1);
  }

  StepTasks Run(bool keep_inputs) {
    for (const Variable& variable : graph_.variables()) {
      result_.variable_of_value[Index(variable.value)] = graph_.value(variable.value).variable;
    }
    for (const ValueId input : graph_.inputs()) {
      Value(NewBuffer(input, -1, MemoryKind::kActivations)).resident = keep_inputs;
    }
    for (NodeId id = graph_.first_node(); id.valid(); id = graph_.node(id).next) Visit(id);
    for (const Output& output : graph_.outputs) {
      if (const int32_t buffer = BufferOf(output.value); buffer >= 0) Value(buffer).fetched = true;
      if (const VariableId variable = VariableOf(output.value); variable.valid()) Use(variable).used = true;
    }
    AddState();
    RemoveImpossibleInPlace();
    return std::move(result_);
  }

 private:
  struct VariableUse {
    int32_t mutation = -1;       // the last task so far that mutates it
    std::vector<int32_t> reads;  // since then
    bool used = false;
  };

  template <class Id>
  static size_t Index(Id id) {
    return static_cast<size_t>(id.index);
  }
  memory::TaskValue& Value(int32_t buffer) { return result_.tasks.values[static_cast<size_t>(buffer)]; }
  int32_t BufferOf(ValueId value) const { return result_.buffer_of_value[Index(value)]; }
  VariableId VariableOf(ValueId value) const { return result_.variable_of_value[Index(value)]; }
  VariableUse& Use(VariableId variable) { return uses_[Index(variable)]; }

  int32_t AddValue(memory::TaskValue value, MemoryKind kind) {
    value.size_bytes = memory::AlignUp(value.size_bytes, value.alignment);
    result_.tasks.values.push_back(std::move(value));
    result_.kind_of_buffer.push_back(kind);
    return static_cast<int32_t>(result_.tasks.values.size()) - 1;
  }

  int32_t NewBuffer(ValueId value, int32_t producer, MemoryKind kind) {
    const int32_t buffer = AddValue(
        {.name = graph_.value(value).name, .size_bytes = graph_.type(value).size_bytes(), .producer = producer}, kind);
    result_.buffer_of_value[Index(value)] = buffer;
    return buffer;
  }

  void Visit(NodeId id) {
    const Node& node = graph_.node(id);
    const OpDef& op = registry_.Get(node.op);
    if (op.traits.view) return AddView(node);
    const auto task = static_cast<int32_t>(result_.node_of_task.size());
    result_.node_of_task.push_back(id);
    result_.tasks.names.push_back(node.name);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].valid()) Read(task, node.inputs[i], Mutates(op, i));
    }
    const MemoryKind kind = KindOfOutputs(node);
    for (const ValueId output : node.outputs) NewBuffer(output, task, kind);
    if (const int64_t workspace = kernels_[Index(id)].workspace_bytes; workspace > 0) {
      result_.workspace_of_node[Index(id)] =
          AddValue({.name = absl::StrCat(node.name, "/workspace"), .size_bytes = workspace, .producer = task},
                   MemoryKind::kWorkspace);
    }
    AddInPlace(node, op);
  }

  void AddView(const Node& node) {
    for (const ValueId output : node.outputs) {
      result_.buffer_of_value[Index(output)] = BufferOf(node.inputs[0]);
      result_.variable_of_value[Index(output)] = VariableOf(node.inputs[0]);
    }
  }

  // Data flow, and the hazards around Variables: earlier mutations before a read, earlier reads and mutations before a
  // mutation. A view of a Variable reads it whenever it is read itself.
  void Read(int32_t task, ValueId value, bool mutates) {
    if (const int32_t buffer = BufferOf(value); buffer >= 0) {
      std::vector<int32_t>& readers = Value(buffer).readers;
      if (readers.empty() || readers.back() != task) readers.push_back(task);
    }
    const VariableId variable = VariableOf(value);
    if (!variable.valid()) return;
    VariableUse& use = Use(variable);
    use.used = true;
    AddEdge(use.mutation, task);
    if (!mutates) {
      use.reads.push_back(task);
      return;
    }
    for (const int32_t reader : use.reads) AddEdge(reader, task);
    use.mutation = task;
    use.reads.clear();
  }

  void AddEdge(int32_t before, int32_t after) {
    if (before >= 0 && before != after) result_.tasks.edges.emplace_back(before, after);
  }

  MemoryKind KindOfOutputs(const Node& node) const {
    const bool of_weights =
        !node.inputs.empty() && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
          if (!input.valid()) return false;
          const int32_t buffer = BufferOf(input);
          return VariableOf(input).valid() ||
                 (buffer >= 0 && result_.kind_of_buffer[static_cast<size_t>(buffer)] == MemoryKind::kWeights);
        });
    switch (node.phase) {
      case Phase::kForward:
        return of_weights ? MemoryKind::kWeights : MemoryKind::kActivations;
      case Phase::kBackward:
        return of_weights ? MemoryKind::kWeights : MemoryKind::kGradients;
      case Phase::kUpdate:
        return MemoryKind::kOptimizer;
    }
    return MemoryKind::kActivations;
  }

  // An output may be written over an input of the same type that the node reads once; a Variable never. Whether the
  // node is the last to read it depends on the order.
  void AddInPlace(const Node& node, const OpDef& op) {
    for (const Alias& alias : op.aliases) {
      if (alias.kind != Alias::Kind::kMayShare) continue;
      const auto i = static_cast<size_t>(alias.input);
      if (i >= node.inputs.size() || !node.inputs[i].valid()) continue;
      const ValueId output = node.outputs[static_cast<size_t>(alias.output)];
      const ValueId input = node.inputs[i];
      const int32_t buffer = BufferOf(input);
      if (buffer < 0 || !(graph_.type(input) == graph_.type(output))) continue;
      const auto reads = std::count_if(node.inputs.begin(), node.inputs.end(),
                                       [&](ValueId other) { return other.valid() && BufferOf(other) == buffer; });
      if (reads == 1) result_.tasks.in_place.push_back({BufferOf(output), buffer});
    }
  }

  // What is fetched or kept is needed after its last reader.
  void RemoveImpossibleInPlace() {
    std::erase_if(result_.tasks.in_place, [&](const memory::TaskInPlace& pair) {
      return Value(pair.input).fetched || Value(pair.input).resident;
    });
  }

  void AddState() {
    const auto last = static_cast<int32_t>(result_.node_of_task.size());
    for (const Variable& variable : graph_.variables()) {
      const bool owns_bytes =
          variable.role != VariableRole::kConstant || Use(graph_.value(variable.value).variable).used;
      result_.state.buffers.push_back(
          {.name = variable.name, .size_bytes = owns_bytes ? variable.type.size_bytes() : 0, .first = 0, .last = last});
      const bool of_optimizer = variable.role == VariableRole::kSlot || variable.role == VariableRole::kScalar;
      result_.kind_of_variable.push_back(of_optimizer ? MemoryKind::kOptimizer : MemoryKind::kWeights);
    }
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  const std::vector<KernelChoice>& kernels_;
  std::vector<VariableUse> uses_;  // by Variable
  StepTasks result_;
};

}  // namespace

const char* MemoryKindName(MemoryKind kind) {
  constexpr const char* kNames[kMemoryKinds] = {"weights", "gradients", "optimizer", "activations", "workspace"};
  return kNames[static_cast<size_t>(kind)];
}

StepTasks FindTasks(const Graph& graph, const OpRegistry& registry, const std::vector<KernelChoice>& kernels,
                    bool keep_inputs) {
  return TaskFinder(graph, registry, kernels).Run(keep_inputs);
}

}  // namespace snug
