// Turns a Graph with kernels into the memory problem: what a step runs, which bytes it needs, and what must run before
// what. Lifetimes follow from an order of the tasks (memory::LifetimesOf).
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

#include "engine/compile/kernels/choose.h"
#include "engine/compile/memory/views.h"
#include "engine/graph/graph.h"
#include "memory/tasks.h"
#include "ops/registry.h"

namespace snug::core {

// Says what bytes are for.
enum class MemoryKind : uint8_t {
  kWeights,      // parameters, running statistics and constants, and their copies in other layouts and element types
  kGradients,    // what the backward pass writes, and its sums over micro-batches
  kOptimizer,    // slots, counters, and what updates pass to each other
  kActivations,  // inputs, and what the forward pass writes
  kWorkspace,
};
inline constexpr int kMemoryKinds = 5;
const char* MemoryKindName(MemoryKind kind);

// Variables lie in the state arena, which lasts; bound values lie where the caller says; everything else lies in the
// step arena.
struct StepTasks {
  // Has a task for each node that runs a kernel, in program order. Views (views.h) run nothing and own nothing: reading
  // a view is reading its root. The tasks' values are the buffers of the step arena: graph inputs, outputs of tasks,
  // workspaces. If several tasks write parts of one buffer, the first is its producer and the others count as readers,
  // so that it is there from the first of them to the last.
  memory::Tasks tasks;
  memory::Problem state;  // a buffer for each Variable, by id; constants that nothing reads have no bytes

  std::vector<NodeId> node_of_task;
  std::vector<std::vector<VariableId>> mutated_by_task;
  std::vector<MemoryKind> kind_of_buffer;    // by buffer of the step arena
  std::vector<char> in_parts;                // by buffer: whether several tasks write parts of it
  std::vector<MemoryKind> kind_of_variable;  // by id of the Variable
  // The buffer of each value in the step arena, by id. It is -1 when the value lies on bytes of a Variable or of the
  // caller, or is never computed.
  std::vector<int32_t> buffer_of_value;
  std::vector<int64_t> offset_of_value;       // by value id: where it begins within its buffer
  std::vector<VariableId> variable_of_value;  // by value id: the Variable on whose bytes it lies
  std::vector<int32_t> caller_of_value;       // by value id: the caller's buffer on which it lies, or -1
  std::vector<int32_t> workspace_of_node;     // by node id: its buffer, or -1
  // The byte at which each of the caller's buffers begins in Arena::kCaller, by number. It only tells these buffers
  // apart.
  std::vector<int64_t> caller_begin;
};

// `alignment` is that of every buffer. With `keep_inputs` what is fed stays until it is fed anew; otherwise its bytes
// are free after the last reader. `bound` are the caller's buffers, by number; each has bytes of its own
// (CallerValue).
StepTasks FindTasks(const Graph& graph, const OpRegistry& registry, const std::vector<KernelChoice>& kernels,
                    const Views& views, int64_t alignment, bool keep_inputs, absl::Span<const CallerValue> bound = {});

// What FindTasks knows of each node whatever the views are, by node id.
struct NodeFacts {
  std::vector<const OpDef*> ops;
  // The seconds that its kernel takes on one core of about today's speed, about. They are only used to compare Steps of
  // one network.
  std::vector<double> seconds;
};
NodeFacts FactsOf(const Graph& graph, const OpRegistry& registry);

// FindTasks for whoever tries many choices of views on one Graph: nothing has a name.
StepTasks FindTasksUnnamed(const Graph& graph, const NodeFacts& facts, const std::vector<KernelChoice>& kernels,
                           const Views& views, int64_t alignment, bool keep_inputs,
                           absl::Span<const CallerValue> bound);

// Returns the order for strategies without an orderer: program order, but every update is moved up to where all that it
// needs is there, so that a gradient dies as soon as it is used. Hazards are kept, because they are edges of the tasks.
memory::TaskOrder GivenOrder(const Graph& graph, const StepTasks& tasks);

}  // namespace snug::core
