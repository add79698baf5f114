#include "engine/compile/memory/tasks.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/memory/contents.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

class TaskFinder {
 public:
  TaskFinder(const Graph& graph, const NodeFacts& facts, const std::vector<KernelChoice>& kernels, const Views& views,
             int64_t alignment, bool named)
      : graph_(graph),
        facts_(facts),
        kernels_(kernels),
        views_(views),
        alignment_(alignment),
        named_(named),
        uses_(graph.variables().size()) {
    result_.buffer_of_value.assign(graph.value_capacity(), -1);
    result_.offset_of_value.assign(graph.value_capacity(), 0);
    result_.variable_of_value.assign(graph.value_capacity(), VariableId());
    result_.caller_of_value.assign(graph.value_capacity(), -1);
    result_.workspace_of_node.assign(graph.node_capacity(), -1);
  }

  StepTasks Run(bool keep_inputs, absl::Span<const CallerValue> bound) {
    AddCallers(bound);
    for (const Variable& variable : graph_.variables()) {
      result_.variable_of_value[Index(variable.value)] = graph_.value(variable.value).variable;
    }
    for (const ValueId input : graph_.inputs()) {
      const int32_t buffer = NewBuffer(input, -1, MemoryKind::kActivations);
      if (buffer >= 0) Value(buffer).resident = keep_inputs;
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
    std::vector<int32_t> reads;  // the tasks that read it since then
    bool used = false;
  };

  // The tasks that write parts of one buffer, by the byte within it where a part begins. A loop of a thousand rounds
  // has a thousand, and as many readers, of which each needs one.
  struct Writers {
    struct Part {
      int64_t end;
      int32_t task;
    };
    std::multimap<int64_t, Part> parts;
    int64_t longest = 0;  // bytes of a part

    void Add(int64_t begin, int64_t end, int32_t task) {
      parts.emplace(begin, Part{end, task});
      longest = std::max(longest, end - begin);
    }
    // In ascending sequence.
    std::vector<int32_t> Of(int64_t begin, int64_t end) const {
      std::vector<int32_t> tasks;
      for (auto it = parts.upper_bound(begin - longest); it != parts.end() && it->first < end; ++it) {
        if (begin < it->second.end) tasks.push_back(it->second.task);
      }
      std::sort(tasks.begin(), tasks.end());
      return tasks;
    }
  };

  template <class Id>
  static size_t Index(Id id) {
    return static_cast<size_t>(id.index);
  }
  memory::TaskValue& Value(int32_t buffer) { return result_.tasks.values[static_cast<size_t>(buffer)]; }
  int32_t BufferOf(ValueId value) const { return result_.buffer_of_value[Index(value)]; }
  VariableId VariableOf(ValueId value) const { return result_.variable_of_value[Index(value)]; }
  int32_t CallerOf(ValueId value) const { return result_.caller_of_value[Index(value)]; }
  VariableUse& Use(VariableId variable) { return uses_[Index(variable)]; }

  std::string Named(const std::string& name, absl::string_view suffix = "") const {
    return named_ ? absl::StrCat(name, suffix) : std::string();
  }

  int32_t AddValue(memory::TaskValue value, MemoryKind kind) {
    value.alignment = alignment_;
    value.size_bytes = memory::AlignUp(value.size_bytes, alignment_);
    result_.tasks.values.push_back(std::move(value));
    result_.kind_of_buffer.push_back(kind);
    result_.in_parts.push_back(0);
    return static_cast<int32_t>(result_.tasks.values.size()) - 1;
  }

  // No other value ever gets the caller's bytes, so accesses to them only wait for the tasks that write them.
  void AddCallers(absl::Span<const CallerValue> bound) {
    int64_t begin = 0;
    for (size_t i = 0; i < bound.size(); ++i) {
      const ValueId root = views_.RootOf(bound[i].value);
      SNUG_CHECK_MSG(graph_.type(root).size_bytes() == graph_.type(bound[i].value).size_bytes(), bound[i].name);
      result_.caller_of_value[Index(root)] = static_cast<int32_t>(i);
      result_.caller_begin.push_back(begin);
      begin += memory::AlignUp(graph_.type(root).size_bytes(), alignment_);
    }
    caller_writers_.resize(bound.size());
  }

  // Returns the buffer of what a task writes: a new one, or one of which another task wrote a part. -1 when it is the
  // caller's.
  int32_t NewBuffer(ValueId value, int32_t producer, MemoryKind kind) {
    const ValueId root = views_.RootOf(value);
    if (const int32_t caller = CallerOf(root); caller >= 0) {
      if (producer >= 0) AddPart(caller_writers_[static_cast<size_t>(caller)], value, producer);
      Place(value);
      return -1;
    }
    int32_t buffer = BufferOf(root);
    if (buffer >= 0) {
      AddWriter(buffer, producer, value);
    } else {
      buffer = AddValue(
          {.name = Named(graph_.value(root).name), .size_bytes = graph_.type(root).size_bytes(), .producer = producer},
          kind);
      result_.buffer_of_value[Index(root)] = buffer;
    }
    Place(value);
    return buffer;
  }

  void AddWriter(int32_t buffer, int32_t task, ValueId part) {
    if (Value(buffer).producer == task) return;
    result_.in_parts[static_cast<size_t>(buffer)] = 1;
    AddPart(more_writers_[buffer], part, task);
    AddReader(buffer, task);
  }

  void AddPart(Writers& writers, ValueId part, int32_t task) const {
    const int64_t begin = views_.OffsetOf(part);
    writers.Add(begin, begin + graph_.type(part).size_bytes(), task);
  }

  void AddReader(int32_t buffer, int32_t task) {
    std::vector<int32_t>& readers = Value(buffer).readers;
    if (readers.empty() || readers.back() != task) readers.push_back(task);
  }

  void Place(ValueId value) {
    const ValueId root = views_.RootOf(value);
    result_.buffer_of_value[Index(value)] = BufferOf(root);
    result_.offset_of_value[Index(value)] = views_.OffsetOf(value);
    result_.variable_of_value[Index(value)] = VariableOf(root);
    result_.caller_of_value[Index(value)] = CallerOf(root);
  }

  void Visit(NodeId id) {
    const Node& node = graph_.node(id);
    const OpDef& op = *facts_.ops[Index(id)];
    if (views_.IsView(id)) {
      for (const ValueId output : node.outputs) Place(output);
      return;
    }
    const auto task = static_cast<int32_t>(result_.node_of_task.size());
    result_.node_of_task.push_back(id);
    result_.tasks.names.push_back(Named(node.name));
    result_.tasks.cost.push_back(facts_.seconds[Index(id)]);
    std::vector<VariableId>& mutated = result_.mutated_by_task.emplace_back();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid()) continue;
      const bool mutates = Mutates(op, i);
      Read(task, node.inputs[i], mutates);
      if (mutates) mutated.push_back(VariableOf(node.inputs[i]));
    }
    const MemoryKind kind = KindOfOutputs(node);
    for (const ValueId output : node.outputs) NewBuffer(output, task, kind);
    if (const int64_t workspace = kernels_[Index(id)].workspace_bytes; workspace > 0) {
      result_.workspace_of_node[Index(id)] = AddValue(
          {.name = Named(node.name, "/workspace"), .size_bytes = workspace, .producer = task}, MemoryKind::kWorkspace);
    }
    AddInPlace(node, op);
  }

  // Adds data flow and the hazards around Variables: a read comes after earlier mutations, a mutation after earlier
  // reads and mutations. Reading a view of a Variable reads the Variable.
  void Read(int32_t task, ValueId value, bool mutates) {
    if (const int32_t buffer = BufferOf(value); buffer >= 0) {
      AddReader(buffer, task);
      if (const auto writers = more_writers_.find(buffer); writers != more_writers_.end()) {
        AddEdgesFrom(writers->second, value, task);
      }
    }
    if (const int32_t caller = CallerOf(value); caller >= 0) {
      AddEdgesFrom(caller_writers_[static_cast<size_t>(caller)], value, task);
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

  void AddEdgesFrom(const Writers& writers, ValueId read, int32_t task) {
    const int64_t begin = views_.OffsetOf(read);
    for (const int32_t writer : writers.Of(begin, begin + graph_.type(read).size_bytes())) AddEdge(writer, task);
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

  // An output may be written over an input of the same type that the node reads once. It may never be written over a
  // Variable, the caller's bytes, or a part of something else. Whether the node is the last to read the input depends
  // on the order.
  void AddInPlace(const Node& node, const OpDef& op) {
    for (const Alias& alias : op.aliases) {
      if (alias.kind != Alias::Kind::kMayShare) continue;
      const auto i = static_cast<size_t>(alias.input);
      if (i >= node.inputs.size() || !node.inputs[i].valid()) continue;
      const ValueId output = node.outputs[static_cast<size_t>(alias.output)];
      const ValueId input = node.inputs[i];
      const int32_t buffer = BufferOf(input);
      if (buffer < 0 || BufferOf(output) < 0 || !(graph_.type(input) == graph_.type(output))) continue;
      if (views_.RootOf(output) != output || !OwnsAllOf(buffer, input)) continue;
      // Another output that is written over the input, as a part of a value, has its bytes already.
      const bool taken = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId other) {
        return other.valid() && other != output && BufferOf(other) == buffer;
      });
      if (taken) continue;
      const auto reads = std::count_if(node.inputs.begin(), node.inputs.end(),
                                       [&](ValueId other) { return other.valid() && BufferOf(other) == buffer; });
      if (reads == 1) result_.tasks.in_place.push_back({BufferOf(output), buffer});
    }
  }

  bool OwnsAllOf(int32_t buffer, ValueId value) {
    return Value(buffer).size_bytes == memory::AlignUp(graph_.type(value).size_bytes(), Value(buffer).alignment);
  }

  // What is fetched or kept is needed after its last reader.
  void RemoveImpossibleInPlace() {
    std::erase_if(result_.tasks.in_place, [&](const memory::TaskInPlace& pair) {
      return Value(pair.input).fetched || Value(pair.input).resident;
    });
  }

  static MemoryKind KindOf(VariableRole role) {
    switch (role) {
      case VariableRole::kSlot:
      case VariableRole::kScalar:
        return MemoryKind::kOptimizer;
      case VariableRole::kWithinStep:
        return MemoryKind::kGradients;
      default:
        return MemoryKind::kWeights;
    }
  }

  void AddState() {
    const auto last = static_cast<int32_t>(result_.node_of_task.size());
    for (const Variable& variable : graph_.variables()) {
      const bool owns_bytes =
          variable.role != VariableRole::kConstant || Use(graph_.value(variable.value).variable).used;
      result_.state.buffers.push_back({.name = variable.name,
                                       .size_bytes = owns_bytes ? variable.type.size_bytes() : 0,
                                       .alignment = alignment_,
                                       .first = 0,
                                       .last = last});
      result_.kind_of_variable.push_back(KindOf(variable.role));
    }
  }

  const Graph& graph_;
  const NodeFacts& facts_;
  const std::vector<KernelChoice>& kernels_;
  const Views& views_;
  const int64_t alignment_;
  const bool named_;
  std::vector<VariableUse> uses_;            // indexed by Variable
  std::map<int32_t, Writers> more_writers_;  // by buffer: the writers beside its producer
  std::vector<Writers> caller_writers_;      // indexed by the caller's buffer
  StepTasks result_;
};

}  // namespace

const char* MemoryKindName(MemoryKind kind) {
  constexpr const char* kNames[kMemoryKinds] = {"weights", "gradients", "optimizer", "activations", "workspace"};
  return kNames[static_cast<size_t>(kind)];
}

NodeFacts FactsOf(const Graph& graph, const OpRegistry& registry) {
  constexpr double kFlopsPerSecond = 4e10, kBytesPerSecond = 1e10, kPerCall = 2e-7;
  NodeFacts facts{.ops = std::vector<const OpDef*>(graph.node_capacity(), nullptr),
                  .seconds = std::vector<double>(graph.node_capacity(), 0)};
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    const OpDef& op = registry.Get(node.op);
    const Cost cost = CostOf(op, TypesOf(graph, node));
    facts.ops[static_cast<size_t>(id.index)] = &op;
    facts.seconds[static_cast<size_t>(id.index)] =
        kPerCall + std::max(cost.flops / kFlopsPerSecond, cost.bytes / kBytesPerSecond);
  }
  return facts;
}

StepTasks FindTasksUnnamed(const Graph& graph, const NodeFacts& facts, const std::vector<KernelChoice>& kernels,
                           const Views& views, int64_t alignment, bool keep_inputs,
                           absl::Span<const CallerValue> bound) {
  return TaskFinder(graph, facts, kernels, views, alignment, /*named=*/false).Run(keep_inputs, bound);
}

StepTasks FindTasks(const Graph& graph, const OpRegistry& registry, const std::vector<KernelChoice>& kernels,
                    const Views& views, int64_t alignment, bool keep_inputs, absl::Span<const CallerValue> bound) {
  return TaskFinder(graph, FactsOf(graph, registry), kernels, views, alignment, /*named=*/true).Run(keep_inputs, bound);
}

}  // namespace snug::core
