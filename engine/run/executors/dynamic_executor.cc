#include "engine/run/executors/dynamic_executor.h"

#include <algorithm>
#include <utility>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/run/dependency/dynamic_engine.h"

namespace snug::core {

absl::StatusOr<std::unique_ptr<Executor>> DynamicExecutor::Create(const Executable& executable,
                                                                  const ArenaBytes& arenas) {
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                        DynamicEngine::Create({.devices = {{.device = {}, .workers = executable.schedule.count()}}}));
  return std::unique_ptr<Executor>(new DynamicExecutor(executable, arenas, std::move(engine)));
}

DynamicExecutor::DynamicExecutor(const Executable& executable, const ArenaBytes& arenas, std::unique_ptr<Engine> engine)
    : BoundExecutor(executable, arenas),
      running_(static_cast<size_t>(executable.schedule.count())),
      engine_(std::move(engine)) {
  for (const Step& step : executable.steps) {
    Accesses& accesses = accesses_.emplace_back();
    for (const Access& access : step.accesses) {
      (access.write ? accesses.writes : accesses.reads).push_back(access.region);
    }
  }
  for (std::atomic<int32_t>& running : running_) running.store(-1, std::memory_order_relaxed);
}

absl::Status DynamicExecutor::Run(Failure* failure) {
  mutated_.store(false, std::memory_order_relaxed);
  failed_step_ = kNoStep;
  asked_stop_.Begin();
  // Where memory is dynamic, Steps keep to the Order: one that runs far ahead would hold its values long before they
  // are needed.
  const bool in_order = executable_.memory.dynamic.has_value();
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Task task{.reads = accesses_[i].reads,
                    .writes = accesses_[i].writes,
                    .stream = executable_.schedule.stream_of[i],
                    .priority = in_order ? -static_cast<int>(i) : 0};
    SNUG_RETURN_IF_ERROR(engine_->Push(task, [this, i](const TaskContext& context) { return RunStep(i, context); }));
  }
  absl::Status status = engine_->WaitAll();
  if (status.ok()) return steps_.EndRun(/*complete=*/true);
  SNUG_RETURN_IF_ERROR(engine_->AcknowledgeAll());
  status.Update(steps_.EndRun(/*complete=*/false));
  failure->step = failed_step_;
  failure->variables_changed = mutated_.load(std::memory_order_relaxed);
  return status;
}

absl::Status DynamicExecutor::RunStep(size_t step, const TaskContext& context) {
  if (asked_stop_.LeavesOut(executable_.steps[step].mutates)) return Stop::Error();
  SetThreadsPerOp(executable_.threads);
  std::atomic<int32_t>& running = running_[static_cast<size_t>(context.stream.index)];
  running.store(static_cast<int32_t>(step), std::memory_order_relaxed);
  if (executable_.steps[step].mutates) mutated_.store(true, std::memory_order_relaxed);
  const int64_t begin = times_ == nullptr ? 0 : MonotonicNanoseconds();
  absl::Status status = steps_.Run(step);
  if (times_ != nullptr) times_[step] = {begin, begin, MonotonicNanoseconds(), context.stream.index};
  running.store(-1, std::memory_order_relaxed);
  if (!status.ok()) {
    const std::lock_guard<std::mutex> lock(mu_);
    failed_step_ = std::min(failed_step_, step);
  }
  return status;
}

std::vector<Executor::At> DynamicExecutor::Running() const {
  std::vector<At> all;
  for (const std::atomic<int32_t>& running : running_) all.push_back({running.load(std::memory_order_relaxed)});
  return all;
}

}  // namespace snug::core
