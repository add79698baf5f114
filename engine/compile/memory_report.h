// What a plan's bytes are for, and when they are most.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/compile/executable.h"
#include "engine/compile/plan_memory.h"
#include "engine/compile/tasks.h"

namespace snug {

struct MemoryReport {
  int32_t peak = 0;  // the first position of the step with the most live bytes
  // Live at the peak, by MemoryKind; Variables, which live always, included.
  std::array<int64_t, kMemoryKinds> bytes{};
  int64_t step_bytes = 0;  // their sum without the Variables'

  // The part of the step arena in which nothing lies at the peak.
  double Fragmentation(int64_t arena_bytes) const {
    return arena_bytes == 0 ? 0 : 1 - static_cast<double>(step_bytes) / static_cast<double>(arena_bytes);
  }
};

// By buffer of the step: whether another one is written over it, in place, at its last position. Its bytes are the
// output's then.
std::vector<char> WrittenOver(const memory::TaskPlan& step);

MemoryReport ReportOf(const StepTasks& tasks, const MemoryPlan& plan);

// A value whose bytes are the user's from the step in which it comes about to the next, whatever the plan or allocator.
struct HeldValue {
  std::string name;
  std::string as;  // "fed", "fetched", "fed and fetched"; "bound" where it lies in the caller's own memory
  int64_t bytes = 0;
};

// What stays when it was fed, then what is to be fetched, but no Variables.
std::vector<HeldValue> HeldByUser(const Executable& executable);

// The buffers of the step that are live at `position`, the largest first. An input on whose bytes the output of that
// position lies is not listed: its bytes are the output's.
std::vector<int32_t> LiveAt(const MemoryPlan& plan, int32_t position);

}  // namespace snug
