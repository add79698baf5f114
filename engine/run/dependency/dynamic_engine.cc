#include "engine/run/dependency/dynamic_engine.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "engine/base/event.h"
#include "engine/base/status.h"
#include "engine/run/dependency/scheduler.h"
#include "engine/run/dependency/sync.h"
#include "engine/run/dependency/task_record.h"

namespace snug::core {
namespace {

using TaskScheduler = Scheduler<StdSync, TaskRecord>;

std::vector<int> WorkerCounts(const DynamicEngineOptions& options) {
  std::vector<int> counts;
  for (const DeviceWorkers& d : options.devices) counts.push_back(d.workers);
  return counts;
}

class ParallelEngine final : public DynamicEngine, private TaskScheduler::Client {
 public:
  explicit ParallelEngine(const DynamicEngineOptions& options)
      : devices_(options.devices),
        scheduler_(this, WorkerCounts(options), {.tasks = options.max_tasks, .bytes = options.max_bytes}) {
    Start();
  }
  ~ParallelEngine() override { Stop(StopMode::kFinish).IgnoreError(); }

  Tag NewTag() override {
    return scheduler_.Locked([this] { return tags_.New(); });
  }

  absl::StatusOr<int64_t> Version(Tag tag) override {
    return scheduler_.Locked([&]() -> absl::StatusOr<int64_t> {
      SNUG_RETURN_IF_ERROR(tags_.Check(tag));
      return tags_.FindVersion(tag)->load(std::memory_order_relaxed);
    });
  }

  absl::Status Delete(Tag tag, TaskFunction destroy) override {
    const Region region = tag;
    return scheduler_.Push({.internal = true}, {}, absl::MakeConstSpan(&region, 1), [&](TaskRecord& record) {
      SNUG_RETURN_IF_ERROR(tags_.Check(region));
      tags_.Retire(tag);
      record.Internal([this, tag, destroy = std::move(destroy)](const TaskContext& context) mutable {
        absl::Status status = destroy ? destroy(context) : absl::OkStatus();
        faults_.Clear(tag);
        tags_.Free(tag.index);
        return status;
      });
      return absl::OkStatus();
    });
  }

  absl::Status Push(const Task& task, TaskFunction function) override {
    if (!function) return absl::InvalidArgumentError("task: expected a function, found none");
    const auto device =
        std::find_if(devices_.begin(), devices_.end(), [&](const DeviceWorkers& d) { return d.device == task.device; });
    if (device == devices_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("task: device ", task.device.ToString(), " has no workers in this engine"));
    }
    return scheduler_.Push({.queue = static_cast<int>(device - devices_.begin()),
                            .stream = task.stream,
                            .priority = task.priority,
                            .bytes = task.bytes},
                           task.reads, task.writes, [&](TaskRecord& record) {
                             if (!accepting_) return StoppedError();
                             SNUG_RETURN_IF_ERROR(tags_.Check(task.reads));
                             SNUG_RETURN_IF_ERROR(tags_.Check(task.writes));
                             record.Fill(task, std::move(function), tags_);
                             return absl::OkStatus();
                           });
  }

  absl::Status Wait(const Region& region) override {
    if (IsWorker()) return InsideTaskError("Wait");
    // The wait is a task that reads the region, so it sees the errors of exactly the writes that were pushed before.
    Event readable;
    absl::Status result;
    SNUG_RETURN_IF_ERROR(
        scheduler_.Push({.internal = true}, absl::MakeConstSpan(&region, 1), {}, [&](TaskRecord& record) {
          SNUG_RETURN_IF_ERROR(tags_.Check(region));
          record.Internal([this, &region, &result, &readable] {
            if (faults_.any()) result = faults_.Find(absl::MakeConstSpan(&region, 1), {}, Faults::kPoison).status;
            readable.Signal();
            return absl::OkStatus();
          });
          return absl::OkStatus();
        }));
    readable.Wait();
    return result;
  }

  absl::Status WaitAll() override {
    if (IsWorker()) return InsideTaskError("WaitAll");
    scheduler_.AwaitAll();
    return faults_.TakeFirst();
  }

  absl::Status Acknowledge(const Region& region) override {
    return scheduler_.Push({.internal = true}, {}, absl::MakeConstSpan(&region, 1), [&](TaskRecord& record) {
      SNUG_RETURN_IF_ERROR(tags_.Check(region));
      record.Internal([this, region] {
        faults_.Clear(region);
        return absl::OkStatus();
      });
      return absl::OkStatus();
    });
  }

  absl::Status AcknowledgeAll() override {
    if (IsWorker()) return InsideTaskError("AcknowledgeAll");
    scheduler_.AwaitAll();
    faults_.ClearAll();
    return absl::OkStatus();
  }

  absl::Status Stop(StopMode mode) override {
    if (IsWorker()) return InsideTaskError("Stop");
    const std::lock_guard lock(state_mu_);
    if (!scheduler_.Locked([this] { return std::exchange(accepting_, false); })) return absl::OkStatus();
    if (mode == StopMode::kCancel) faults_.SetCancelling(true);
    scheduler_.AwaitAll();
    scheduler_.Close();
    for (std::thread& worker : workers_) worker.join();
    SetWorkers({});
    faults_.SetCancelling(false);
    return absl::OkStatus();
  }

  void Start() override {
    const std::lock_guard lock(state_mu_);
    if (!workers_.empty()) return;
    scheduler_.Reopen();
    std::vector<std::thread> workers;
    for (size_t d = 0; d < devices_.size(); ++d) {
      for (int w = 0; w < devices_[d].workers; ++w) {
        workers.emplace_back([this, d, w] { scheduler_.Work(static_cast<int>(d), w); });
      }
    }
    SetWorkers(std::move(workers));
    scheduler_.Locked([this] { accepting_ = true; });
  }

 private:
  static absl::Status StoppedError() {
    return absl::FailedPreconditionError("task: the engine is stopped; Start() it first");
  }
  static absl::Status InsideTaskError(absl::string_view what) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, ": called by a task, which would wait for itself; name what it needs as read"));
  }

  void Run(TaskRecord& record, int64_t sequence, int queue, int worker) override {
    const TaskContext context = {.stream = {devices_[static_cast<size_t>(queue)].device, worker}};
    record.Run(context, sequence, faults_);
  }
  bool MayBlock() override { return !IsWorker(); }

  bool IsWorker() {
    const std::lock_guard lock(ids_mu_);
    return std::find(ids_.begin(), ids_.end(), std::this_thread::get_id()) != ids_.end();
  }
  void SetWorkers(std::vector<std::thread> workers) {
    workers_ = std::move(workers);
    const std::lock_guard lock(ids_mu_);
    ids_.clear();
    for (const std::thread& worker : workers_) ids_.push_back(worker.get_id());
  }

  const std::vector<DeviceWorkers> devices_;
  Faults faults_;
  TaskScheduler scheduler_;
  TagTable tags_;           // guarded by the scheduler's lock
  bool accepting_ = false;  // guarded by the scheduler's lock

  std::mutex state_mu_;  // serialises Start and Stop, and guards workers_
  std::vector<std::thread> workers_;
  std::mutex ids_mu_;  // guards ids_
  std::vector<std::thread::id> ids_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> DynamicEngine::Create(const DynamicEngineOptions& options) {
  const auto invalid = [](absl::string_view what, int64_t found) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": expected at least 1, found ", found));
  };
  if (options.devices.empty()) return invalid("devices", 0);
  for (size_t i = 0; i < options.devices.size(); ++i) {
    const DeviceWorkers& d = options.devices[i];
    if (d.workers < 1) return invalid(absl::StrCat("workers of device ", d.device.ToString()), d.workers);
    for (size_t k = 0; k < i; ++k) {
      if (options.devices[k].device == d.device) {
        return absl::InvalidArgumentError(absl::StrCat("device ", d.device.ToString(), ": listed twice"));
      }
    }
  }
  if (options.max_tasks < 1) return invalid("max_tasks", options.max_tasks);
  if (options.max_bytes < 1) return invalid("max_bytes", options.max_bytes);
  return std::make_unique<ParallelEngine>(options);
}

}  // namespace snug::core
