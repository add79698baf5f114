#include <absl/strings/str_cat.h>
#include <unistd.h>

#include <numeric>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/schedule/stages.h"
#include "engine/run/check/check_executor.h"

namespace snug::core {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kGuardPages = 4;  // because a stray access is often some rows away

// Buffers that are written over each other lie on the same bytes. Returns by buffer one that stands for all of these.
std::vector<size_t> SharedBlocks(const memory::Problem& problem, const memory::Plan& plan) {
  std::vector<size_t> parent(problem.buffers.size());
  std::iota(parent.begin(), parent.end(), size_t{0});
  const auto root = [&](size_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  for (const memory::InPlace& pair : problem.in_place) {
    const auto output = static_cast<size_t>(pair.output), input = static_cast<size_t>(pair.input);
    if (plan.offsets[output] == plan.offsets[input]) parent[root(output)] = root(input);
  }
  for (size_t i = 0; i < parent.size(); ++i) parent[i] = root(i);
  return parent;
}

memory::Plan Pad(const memory::Problem& problem, const std::vector<size_t>& block_of, int64_t page) {
  std::vector<int64_t> size(problem.buffers.size(), 0);  // by block
  for (size_t i = 0; i < size.size(); ++i) {
    size[block_of[i]] = std::max(size[block_of[i]], memory::AlignUp(problem.buffers[i].size_bytes, kAlignment));
  }
  memory::Plan plan{.offsets = std::vector<int64_t>(size.size(), 0)};
  int64_t end = kGuardPages * page;
  std::vector<int64_t> offset(size.size(), 0);  // by block
  for (size_t block = 0; block < size.size(); ++block) {
    if (size[block] == 0) continue;
    end += memory::AlignUp(size[block], page);
    offset[block] = end - size[block];
    end += kGuardPages * page;
  }
  for (size_t i = 0; i < size.size(); ++i) plan.offsets[i] = offset[block_of[i]];
  plan.arena_bytes = end;
  return plan;
}

}  // namespace

absl::Status PadPlan(Compiled& compiled) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  MemoryPlan plan = std::move(compiled.executable.memory);
  absl::StrAppend(&plan.strategy, ", in guarded pages");
  memory::Plan& step = plan.step.placement.plan;
  step = Pad(plan.step.problem, SharedBlocks(plan.step.problem, step), page);
  plan.state_plan = PadState(plan.state_problem);
  compiled.executable =
      Lower(compiled.graph, compiled.kernels, compiled.tasks, std::move(plan), compiled.bound, compiled.threads);
  SNUG_RETURN_IF_ERROR(ScheduleSteps(compiled.tasks, 1, compiled.executable));
  return VerifyExecutable(compiled);
}

memory::Plan PadState(const memory::Problem& problem) {
  std::vector<size_t> own(problem.buffers.size());
  std::iota(own.begin(), own.end(), size_t{0});
  return Pad(problem, own, sysconf(_SC_PAGESIZE));
}

}  // namespace snug::core
