#include "engine/run/dependency/serial_engine.h"

#include <absl/strings/str_cat.h>

#include "engine/base/status.h"

namespace snug::core {

absl::Status SerialEngine::CheckOutside(absl::string_view what) const {
  if (!running_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(what, ": called by a task, which would wait for itself; name what it needs as read"));
}

void SerialEngine::Run(TaskRecord record, Device device) {
  queue_.push_back({std::move(record), device});
  if (running_) return;
  running_ = true;
  while (!queue_.empty()) {
    Pushed next = std::move(queue_.front());
    queue_.pop_front();
    next.record.Run({.stream = {next.device, 0}}, ++last_sequence_, faults_);
  }
  running_ = false;
}

absl::Status SerialEngine::Push(const Task& task, TaskFunction function) {
  if (!function) return absl::InvalidArgumentError("task: expected a function, found none");
  if (!accepting_) return absl::FailedPreconditionError("task: the engine is stopped; Start() it first");
  SNUG_RETURN_IF_ERROR(tags_.Check(task.reads));
  SNUG_RETURN_IF_ERROR(tags_.Check(task.writes));
  TaskRecord record;
  record.Fill(task, std::move(function), tags_);
  Run(std::move(record), task.device);
  return absl::OkStatus();
}

absl::Status SerialEngine::Delete(Tag tag, TaskFunction destroy) {
  SNUG_RETURN_IF_ERROR(tags_.Check(tag));
  tags_.Retire(tag);
  TaskRecord record;
  record.Internal([this, tag, destroy = std::move(destroy)](const TaskContext& context) mutable {
    absl::Status status = destroy ? destroy(context) : absl::OkStatus();
    faults_.Clear(tag);
    tags_.Free(tag.index);
    return status;
  });
  Run(std::move(record), Device{});
  return absl::OkStatus();
}

absl::Status SerialEngine::Acknowledge(const Region& region) {
  SNUG_RETURN_IF_ERROR(tags_.Check(region));
  TaskRecord record;
  record.Internal([this, region] {
    faults_.Clear(region);
    return absl::OkStatus();
  });
  Run(std::move(record), Device{});
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SerialEngine::Version(Tag tag) {
  SNUG_RETURN_IF_ERROR(tags_.Check(tag));
  return tags_.FindVersion(tag)->load(std::memory_order_relaxed);
}

absl::Status SerialEngine::Wait(const Region& region) {
  SNUG_RETURN_IF_ERROR(CheckOutside("Wait"));
  SNUG_RETURN_IF_ERROR(tags_.Check(region));
  return faults_.Find(absl::MakeConstSpan(&region, 1), {}, Faults::kPoison).status;
}

absl::Status SerialEngine::WaitAll() {
  SNUG_RETURN_IF_ERROR(CheckOutside("WaitAll"));
  return faults_.TakeFirst();
}

absl::Status SerialEngine::AcknowledgeAll() {
  SNUG_RETURN_IF_ERROR(CheckOutside("AcknowledgeAll"));
  faults_.ClearAll();
  return absl::OkStatus();
}

absl::Status SerialEngine::Stop(StopMode /*mode*/) {
  SNUG_RETURN_IF_ERROR(CheckOutside("Stop"));
  accepting_ = false;
  return absl::OkStatus();
}

}  // namespace snug::core
