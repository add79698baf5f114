// What a Step does to bytes, for the one rule of engine/base/conflict.h.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/conflict.h"
#include "engine/compile/tasks.h"
#include "engine/graph/graph.h"
#include "memory/problem.h"

namespace snug {

enum class Arena : uint8_t {
  kState,
  kStep,
  kCaller,  // no arena of ours: buffers that the caller binds, by number
  kBlocks,  // of dynamic memory: no arena, but blocks by number
  kParts,   // no arena either: tells apart what several Steps write into one buffer; by the bytes of the step arena
};

// The bytes of values: where a plan of each arena puts them. The caller's have none: their ranges only tell them apart.
class ValueRegions {
 public:
  // All must outlive it.
  ValueRegions(const Graph& graph, const StepTasks& tasks, const memory::Plan& state, const memory::Plan& step)
      : graph_(graph), tasks_(tasks), state_(state), step_(step) {}

  Region Of(ValueId value) const;
  Region OfWorkspace(NodeId node) const;  // empty: it has none

  // Inputs, outputs, workspace of the node that `task` runs. Bytes of the step arena belong to a buffer as a whole: its
  // producer writes all of it, everybody else reads all of it, so that nobody is there before the producer, and nobody
  // of the next buffer before all of this one are done. Who writes a part after the producer writes that part besides.
  std::vector<Access> AccessesOf(int32_t task) const;

 private:
  Region OfBuffer(int32_t buffer) const;
  void Add(int32_t task, ValueId value, bool write, std::vector<Access>* accesses) const;

  const Graph& graph_;
  const StepTasks& tasks_;
  const memory::Plan& state_;
  const memory::Plan& step_;
};

}  // namespace snug
