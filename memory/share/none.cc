#include "memory/share/none.h"

namespace snug::core::memory {

Plan PlanNone(const Problem& problem) {
  Plan plan;
  plan.offsets.reserve(problem.buffers.size());
  for (const Buffer& buffer : problem.buffers) {
    plan.offsets.push_back(AlignUp(plan.arena_bytes, buffer.alignment));
    plan.arena_bytes = plan.offsets.back() + buffer.size_bytes;
  }
  return plan;
}

}  // namespace snug::core::memory
