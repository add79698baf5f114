// The Executable: bound kernel calls (Steps) and where their bytes lie. Device memory comes later (engine/run): here
// are offsets only. Immutable after lowering.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/compile/plan_memory.h"
#include "engine/graph/graph.h"
#include "ops/node_types.h"
#include "ops/op_def.h"

namespace snug {

enum class Arena : uint8_t { kState, kStep };

struct Slot {
  Arena arena = Arena::kStep;
  int64_t offset = -1;  // < 0: absent optional input
};

struct Step {
  KernelFn kernel = nullptr;
  NodeTypes types;
  std::vector<Slot> inputs, outputs;
  Slot workspace;
  std::shared_ptr<const void> prepared;
  uint64_t random_id = 0;
  NodeId node;
};

struct Endpoint {  // something fed or fetched by name
  std::string name;
  ValueType type;
  Slot slot;
  int64_t max_value = 0;
  bool kept = true;  // false, of an input: a step may write over it
};

struct Executable {
  std::vector<Step> steps;
  int threads = 1;
  MemoryPlan memory;
  std::vector<Endpoint> inputs, outputs;
  std::vector<Slot> variables;  // by VariableId
};

}  // namespace snug
