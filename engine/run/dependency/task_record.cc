#include "engine/run/dependency/task_record.h"

#include <algorithm>

namespace snug::core {

void TaskRecord::Fill(const Task& task, TaskFunction function, TagTable& tags) {
  function_ = std::move(function);
  internal_ = false;
  reads_.assign(task.reads.begin(), task.reads.end());
  writes_.assign(task.writes.begin(), task.writes.end());
  version_ = nullptr;
  more_versions_.clear();
  for (const Region& region : writes_) {
    TagTable::Version* version = tags.FindVersion(region);
    if (version == nullptr || version == version_) continue;
    if (version_ == nullptr) {
      version_ = version;
    } else {
      more_versions_.push_back(version);
    }
  }
  if (more_versions_.size() > 1) {  // a tag that is named twice is written only once
    std::sort(more_versions_.begin(), more_versions_.end());
    more_versions_.erase(std::unique(more_versions_.begin(), more_versions_.end()), more_versions_.end());
  }
  several_versions_ = !more_versions_.empty();
}

void TaskRecord::Internal(TaskFunction function) {
  function_ = std::move(function);
  internal_ = true;
  version_ = nullptr;
  several_versions_ = false;
  reads_.clear();
  writes_.clear();
}

void TaskRecord::Run(const TaskContext& context, int64_t sequence, Faults& faults) {
  Faults::Fault fault;
  if (!internal_ && faults.any()) [[unlikely]] {
    fault = faults.Find(reads_, writes_, Faults::kPoisonOrStop);
    if (fault.sequence == 0) fault.sequence = sequence;  // the engine was stopped, and no task has failed
  }
  if (fault.status.ok()) {
    absl::Status status = function_(context);
    if (!status.ok()) [[unlikely]] {
      fault = {sequence, std::move(status)};
    }
  }
  function_.Reset();  // before anybody learns that the task is done, because they may reuse what it holds
  if (!fault.status.ok()) [[unlikely]] {
    faults.Record(sequence, fault, writes_);
  }
  // No other task writes to these tags now, so no atomic addition is needed.
  const auto count = [](TagTable::Version& version) {
    version.store(version.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  };
  if (version_ != nullptr) count(*version_);
  if (several_versions_) {
    for (TagTable::Version* version : more_versions_) count(*version);
  }
}

}  // namespace snug::core
