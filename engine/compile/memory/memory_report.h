// Tells what a plan's bytes are for, and when they are most.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/compile/executable.h"
#include "engine/compile/memory/plan_memory.h"
#include "engine/compile/memory/tasks.h"

namespace snug::core {

struct MemoryReport {
  int32_t peak = 0;  // the first position of the step at which most bytes are live
  // The bytes that are live at the peak, by MemoryKind. They include Variables, which always live.
  std::array<int64_t, kMemoryKinds> bytes{};
  int64_t step_bytes = 0;  // their sum without that of the Variables

  // Returns the share of the step arena in which nothing lies at the peak.
  double Fragmentation(int64_t arena_bytes) const {
    return arena_bytes == 0 ? 0 : 1 - static_cast<double>(step_bytes) / static_cast<double>(arena_bytes);
  }
};

// Returns, by buffer of the step, whether another one is written over it, in place, at its last position. From then on
// the bytes are the output's.
std::vector<char> WrittenOver(const memory::TaskPlan& step);

MemoryReport ReportOf(const StepTasks& tasks, const MemoryPlan& plan);

// A value whose bytes belong to the user from one step to the next, whatever the plan or allocator.
struct HeldValue {
  std::string name;
  std::string as;  // "fed", "fetched" or "fed and fetched"; "bound" where it lies in the caller's own memory
  int64_t bytes = 0;
};

// Returns fed values that stay and then values to be fetched, but no Variables.
std::vector<HeldValue> HeldByUser(const Executable& executable);

// Returns the buffers of the step that are live at `position`, the largest first. An input that the output at this
// position overwrites is left out, because its bytes are the output's.
std::vector<int32_t> LiveAt(const MemoryPlan& plan, int32_t position);

}  // namespace snug::core
