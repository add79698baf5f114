// The Executable: bound kernel calls (Steps) and where their bytes lie. Device memory comes later (engine/run): here
// are offsets only. Immutable after lowering.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/compile/accesses.h"
#include "engine/compile/plan_memory.h"
#include "engine/compile/streams.h"
#include "engine/graph/graph.h"
#include "ops/node_types.h"
#include "ops/op_def.h"

namespace snug {

struct Slot {
  Arena arena = Arena::kStep;
  int64_t offset = -1;  // < 0: absent optional input
  int32_t block = -1;   // of kBlocks and kCaller: from whose first byte the offset counts
};

struct Step {
  KernelFn kernel = nullptr;
  TogetherFn together = nullptr;  // where several such Steps may run as one; null: they may not
  NodeTypes types;
  std::vector<Slot> inputs, outputs;
  Slot workspace;
  std::shared_ptr<const void> prepared;
  uint64_t random_id = 0;
  NodeId node;
  std::vector<Access> accesses;  // what it does to the arenas
  bool mutates = false;          // a Variable
};

struct Endpoint {  // something fed or fetched by name
  std::string name;
  ValueType type;
  Slot slot;
  int64_t max_value = 0;
  bool kept = true;  // false, of an input: a step may write over it
};

struct CallerBuffer {  // an input or output that lies where the caller says
  std::string name;
  ValueType type;
  bool input = false;  // only read
};

struct Executable {
  std::vector<Step> steps;  // in Order
  Schedule schedule;        // of them
  int threads = 1;
  MemoryPlan memory;
  std::vector<Endpoint> inputs, outputs;
  std::vector<CallerBuffer> caller_buffers;  // by Slot::block
  std::vector<Slot> variables;               // by VariableId; absent for constants that nothing reads
};

}  // namespace snug
