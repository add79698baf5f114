#include "engine/run/executors/serial_executor.h"

#include <algorithm>
#include <cstring>

#include "engine/base/parallel.h"

namespace snug::core {

absl::Status SerialExecutor::Run(Failure* failure) {
  SetThreadsPerOp(executable_.threads);
  if (poison_ != nullptr) poison_->BeforeSteps();
  asked_stop_.Begin();
  absl::Status status = RunSteps(failure);
  status.Update(steps_.EndRun(/*complete=*/status.ok()));
  running_.store(-1, std::memory_order_relaxed);
  return status;
}

absl::Status SerialExecutor::RunSteps(Failure* failure) {
  StepTime* const times = times_;
  int64_t now = times == nullptr ? 0 : MonotonicNanoseconds();
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (asked_stop_.LeavesOut(executable_.steps[i].mutates)) return Stop::Error();
    running_.store(static_cast<int32_t>(i), std::memory_order_relaxed);
    failure->variables_changed |= executable_.steps[i].mutates;
    absl::Status status = steps_.Run(i);
    if (!status.ok()) {
      failure->step = i;
      return status;
    }
    if (times != nullptr) {
      const int64_t end = MonotonicNanoseconds();
      times[i] = {now, now, end, 0};
      now = end;
    }
    if (poison_ != nullptr) poison_->AfterStep(i);
  }
  return absl::OkStatus();
}

Poison::Poison(const memory::Problem& problem, const memory::Plan& plan, size_t steps, std::byte* arena)
    : arena_(arena), unfed_({{0, plan.arena_bytes}}), freed_(steps) {
  const auto range_of = [&](size_t buffer) {
    return Range{plan.offsets[buffer], plan.offsets[buffer] + problem.buffers[buffer].size_bytes};
  };
  const auto last_step = static_cast<int32_t>(steps) - 1;
  std::vector<std::vector<size_t>> born(steps + 1);
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const memory::Buffer& buffer = problem.buffers[i];
    born[static_cast<size_t>(buffer.first)].push_back(i);
    // Inputs are there before the first Step, so their bytes are kept. (So are the first Step's outputs, but that loses
    // nothing.)
    if (buffer.first == 0) unfed_ = Without(unfed_, range_of(i));
  }
  std::vector<size_t> live;
  for (int32_t step = 0; step <= last_step; ++step) {
    const std::vector<size_t>& new_ones = born[static_cast<size_t>(step)];
    live.insert(live.end(), new_ones.begin(), new_ones.end());
    const auto dead =
        std::partition(live.begin(), live.end(), [&](size_t i) { return problem.buffers[i].last > step; });
    for (auto it = dead; it != live.end(); ++it) {
      Ranges freed = {range_of(*it)};
      for (auto survivor = live.begin(); survivor != dead; ++survivor) freed = Without(freed, range_of(*survivor));
      Ranges& all = freed_[static_cast<size_t>(step)];
      all.insert(all.end(), freed.begin(), freed.end());
    }
    live.erase(dead, live.end());
  }
}

Poison::Ranges Poison::Without(const Ranges& ranges, const Range& taken) {
  Ranges rest;
  for (const Range& range : ranges) {
    const Range below = {range.begin, std::min(range.end, taken.begin)};
    const Range above = {std::max(range.begin, taken.end), range.end};
    if (taken.begin >= range.end || taken.end <= range.begin) {
      rest.push_back(range);
      continue;
    }
    if (below.begin < below.end) rest.push_back(below);
    if (above.begin < above.end) rest.push_back(above);
  }
  return rest;
}

void Poison::Fill(const Ranges& ranges) {
  for (const Range& range : ranges)
    std::memset(arena_ + range.begin, 0xFF, static_cast<size_t>(range.end - range.begin));
}

}  // namespace snug::core
