// Plans the order and the memory of a step, by one of the strategies of memory/strategies.h, and keeps plans in files
// (plan_file.cc).
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/base/device.h"
#include "engine/compile/memory/dynamic_memory.h"
#include "engine/compile/memory/tasks.h"
#include "memory/strategies.h"

namespace snug::core {

struct Compiled;

struct MemoryOptions {
  std::string strategy = std::string(memory::kDefaultStrategy);
  memory::PlannerOptions planner;
  std::string plan_file;  // if given, nothing is planned and this plan is loaded
  int streams = 1;        // how many streams will run the plan
  // Says how values share bytes where several streams run them, in the strategy's order. `serial` plans as for one
  // stream; streams then wait wherever bytes are reused. `waitless` lets nobody ever wait for bytes
  // (memory/place/placers.h). The others are those of memory/share/parallel.h. Empty stands for waitless with several
  // streams and the default strategy, else for serial.
  std::string stream_policy;
  int64_t memory_limit = 0;      // in bytes, Variables included; a plan that needs more is an error. 0: none
  DynamicMemoryOptions dynamic;  // for the strategy kDynamicMemory; its allocator gets the limit above
};

// Positions of the step problem are places in step.order: the n-th Step of the Executable runs at position n.
struct MemoryPlan {
  std::string strategy;
  memory::Problem state_problem;  // has the Variables, which all live for ever
  memory::Plan state_plan;
  memory::TaskPlan step;
  double seconds = 0;  // how long all planning took
  // If set, there is no step arena, and the step's plan only tells blocks apart.
  std::optional<DynamicMemory> dynamic;

  // Returns the bytes of the step arena, or the most that the allocator is predicted to reserve for the step.
  int64_t step_bytes() const {
    return dynamic.has_value() ? dynamic->predicted.peak_reserved_bytes : step.placement.plan.arena_bytes;
  }
  int64_t total_bytes() const { return state_plan.arena_bytes + step_bytes(); }
  int64_t lower_bound() const { return state_plan.arena_bytes + step.placement.report.lower_bound; }
  bool proven() const { return step.placement.report.proven; }
};

// Returns the names that `stream_policy` accepts.
std::vector<absl::string_view> StreamPolicies();
// Returns the policy that places values in the strategy's stead, or "" where the strategy's placement stays.
absl::string_view PlacingPolicy(const MemoryOptions& options);

// `given` is the order that strategies without an orderer keep; `device` is where allocators of dynamic memory will be.
absl::StatusOr<MemoryPlan> PlanMemory(const StepTasks& tasks, const memory::TaskOrder& given, Device device,
                                      const MemoryOptions& options);
// Fails with ResourceExhausted where the plan takes more than `limit` bytes; 0 means no limit. PlanMemory has checked
// it already.
absl::Status CheckMemoryLimit(const MemoryPlan& plan, int64_t limit);

// Saves the plan of compiled.executable in a file (proto/plan.proto): planned once, shipped, and run without planner or
// solver. Files named *.pbtxt and *.txt are text, all others are binary.
absl::Status SavePlan(const Compiled& compiled, const std::string& path);

// Loads a plan for `compiled`, which needs no executable yet. It is checked against the graph, kernels, batch, threads,
// device and alignment, and verified. The error names what differs, or the bytes that overlap.
absl::StatusOr<MemoryPlan> LoadPlan(const Compiled& compiled, const std::string& path);

}  // namespace snug::core
