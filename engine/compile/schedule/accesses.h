// Says which bytes a Step reads and writes, for the one rule of engine/base/conflict.h.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/conflict.h"
#include "engine/compile/memory/tasks.h"
#include "engine/graph/graph.h"
#include "memory/problem.h"

namespace snug::core {

enum class Arena : uint8_t {
  kState,
  kStep,
  kCaller,  // no arena of ours: buffers that the caller binds, by number
  kBlocks,  // no arena either: blocks of dynamic memory, by number
  kParts,   // no arena either: bytes of the step arena again, to tell apart what several Steps write into one buffer
};

// Knows the bytes of values from a plan of each arena. The caller's buffers are in no plan: their ranges only tell them
// apart.
class ValueRegions {
 public:
  // All arguments must outlive this.
  ValueRegions(const Graph& graph, const StepTasks& tasks, const memory::Plan& state, const memory::Plan& step)
      : graph_(graph), tasks_(tasks), state_(state), step_(step) {}

  Region Of(ValueId value) const;
  Region OfWorkspace(NodeId node) const;  // empty when it has none

  // Returns the accesses to inputs, outputs and workspace of the node that `task` runs. In the step arena a buffer is
  // accessed as a whole: its producer writes all of it, and everybody else reads all of it. So nobody uses it before
  // the producer, and nobody uses a later buffer in its place before all are done. A task that writes a part after the
  // producer also writes that part.
  std::vector<Access> AccessesOf(int32_t task) const;

 private:
  Region OfBuffer(int32_t buffer) const;
  void Add(int32_t task, ValueId value, bool write, std::vector<Access>* accesses) const;

  const Graph& graph_;
  const StepTasks& tasks_;
  const memory::Plan& state_;
  const memory::Plan& step_;
};

}  // namespace snug::core
