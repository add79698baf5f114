// From a Graph with kernels to the memory problem: what a step runs, which bytes it needs, and what must run before
// what. Lifetimes follow from an order of the tasks (memory::LifetimesOf).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/compile/choose.h"
#include "engine/graph/graph.h"
#include "memory/tasks.h"
#include "ops/registry.h"

namespace snug {

// What bytes are for.
enum class MemoryKind : uint8_t {
  kWeights,      // parameters, running statistics, constants; their copies in other layouts and element types
  kGradients,    // what the backward pass writes
  kOptimizer,    // slots, counters, what updates hand to each other
  kActivations,  // inputs and what the forward pass writes
  kWorkspace,
};
inline constexpr int kMemoryKinds = 5;
const char* MemoryKindName(MemoryKind kind);

// Variables lie in the state arena, which lasts; everything else in the step arena.
struct StepTasks {
  // A task for each node that runs a kernel, in program order. Views run nothing and own nothing: who reads a view
  // reads its root. The tasks' values are the buffers of the step arena: graph inputs, outputs of tasks, workspaces.
  memory::Tasks tasks;
  memory::Problem state;  // one buffer for each Variable, by id; constants that nothing reads have no bytes

  std::vector<NodeId> node_of_task;
  std::vector<MemoryKind> kind_of_buffer;    // of the step arena
  std::vector<MemoryKind> kind_of_variable;  // by id
  // By value id: its buffer in the step arena, or -1 (it lies on a Variable's bytes, or is never computed).
  std::vector<int32_t> buffer_of_value;
  std::vector<VariableId> variable_of_value;  // by value id: the Variable on whose bytes it lies
  std::vector<int32_t> workspace_of_node;     // by node id: its buffer, or -1
};

// `keep_inputs`: what is fed stays until it is fed anew; otherwise its bytes are free after the last reader.
StepTasks FindTasks(const Graph& graph, const OpRegistry& registry, const std::vector<KernelChoice>& kernels,
                    bool keep_inputs);

}  // namespace snug
