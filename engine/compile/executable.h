// The Executable: bound kernel calls (Steps), and where their bytes lie. It only has offsets: memory of a device comes
// later (engine/run). It is immutable after lowering.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/compile/memory/plan_memory.h"
#include "engine/compile/schedule/accesses.h"
#include "engine/compile/schedule/streams.h"
#include "engine/graph/graph.h"
#include "ops/node_types.h"
#include "ops/op_def.h"

namespace snug::core {

struct Slot {
  Arena arena = Arena::kStep;
  int64_t offset = -1;  // < 0: an optional input that is absent
  int32_t block = -1;   // the block of kBlocks, or buffer of kCaller, from whose first byte the offset counts
};

struct Step {
  std::shared_ptr<const KernelRow> kernel;
  PreparedKernel instead;  // of KernelChoice
  NodeTypes types;
  std::vector<Slot> inputs, outputs;
  Slot workspace;
  std::shared_ptr<const void> prepared;
  uint64_t random_id = 0;
  NodeId node;
  std::vector<Access> accesses;  // what it does to the arenas
  bool mutates = false;          // whether it changes a Variable
};

struct Endpoint {  // something that is fed or fetched by name
  std::string name;
  ValueType type;
  Slot slot;
  int64_t max_value = 0;
  bool kept = true;  // false for an input that a step may write over
};

struct CallerBuffer {  // an input or output that lies where the caller says
  std::string name;
  ValueType type;
  bool input = false;  // whether it is only read
};

struct Executable {
  std::vector<Step> steps;  // in the sequence of the Order
  Schedule schedule;        // the schedule of the steps
  int threads = 1;
  MemoryPlan memory;
  std::vector<Endpoint> inputs, outputs;
  std::vector<CallerBuffer> caller_buffers;  // indexed by Slot::block
  std::vector<Slot> variables;               // indexed by VariableId; absent for constants that nothing reads
};

}  // namespace snug::core
