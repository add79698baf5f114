#include "engine/compile/plan_memory.h"

#include <absl/strings/str_cat.h>

#include <chrono>
#include <utility>

#include "engine/base/status.h"
#include "memory/share/none.h"
#include "memory/verifier.h"

namespace snug {
namespace {

// Sizes are bounded one by one; their sum has to be a number, too.
absl::Status CheckTotal(const StepTasks& tasks) {
  double total = 0;
  for (const memory::Buffer& buffer : tasks.state.buffers) total += static_cast<double>(buffer.size_bytes);
  for (const memory::TaskValue& value : tasks.tasks.values) total += static_cast<double>(value.size_bytes);
  if (total < 0x1p56) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the network's values need ", total, " bytes in all, more than any machine has"));
}

}  // namespace

absl::StatusOr<MemoryPlan> PlanMemory(const StepTasks& tasks, const memory::TaskOrder& given,
                                      const MemoryOptions& options) {
  SNUG_RETURN_IF_ERROR(CheckTotal(tasks));
  const auto begin = std::chrono::steady_clock::now();
  MemoryPlan plan{
      .strategy = options.strategy, .state_problem = tasks.state, .state_plan = memory::PlanNone(tasks.state)};
  SNUG_RETURN_IF_ERROR(memory::Verify(plan.state_problem, plan.state_plan));
  SNUG_ASSIGN_OR_RETURN(plan.step, memory::PlanTasks(tasks.tasks, given, options.strategy, options.planner));
  plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return plan;
}

}  // namespace snug
