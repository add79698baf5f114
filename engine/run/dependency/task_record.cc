#include "engine/run/dependency/task_record.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

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

Tag TagTable::New() {
  int32_t index = -1;
  {
    const std::lock_guard lock(free_mu_);
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    }
  }
  if (index < 0) {
    index = static_cast<int32_t>(generations_.size());
    generations_.push_back(0);
    versions_.emplace_back();
  }
  versions_[static_cast<size_t>(index)].store(0, std::memory_order_relaxed);
  return {index, generations_[static_cast<size_t>(index)]};
}

void TagTable::Free(int32_t index) {
  const std::lock_guard lock(free_mu_);
  free_.push_back(index);
}

absl::Status TagTable::Check(const Region& region) const {
  if (region.arena != kTagArena) {
    if (region.arena >= 0 && region.begin <= region.end) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("region [", region.begin, ", ", region.end, ") of arena ",
                                                   region.arena,
                                                   ": expected an arena >= 0 and a begin that is not after the end"));
  }
  const Tag tag = TagOf(region);
  const bool known = tag.index >= 0 && static_cast<size_t>(tag.index) < generations_.size();
  if (known && generations_[static_cast<size_t>(tag.index)] == tag.generation && region == Region(tag)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tag ", tag.index, ".", tag.generation, ": ", known ? "it was deleted" : "no tag of this engine"));
}

absl::Status TagTable::Check(absl::Span<const Region> regions) const {
  for (const Region& region : regions) {
    absl::Status status = Check(region);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

TagTable::Version* TagTable::FindVersion(const Region& region) {
  return region.arena == kTagArena ? &versions_[static_cast<size_t>(TagOf(region).index)] : nullptr;
}

Faults::Fault Faults::Find(absl::Span<const Region> reads, absl::Span<const Region> writes, Kinds kinds) const {
  const std::lock_guard lock(mu_);
  Fault found;
  for (const auto& regions : {reads, writes}) {
    for (const Region& r : regions) {
      const auto arena = poisoned_.find(r.arena);
      if (arena == poisoned_.end()) continue;
      arena->second.ForEach(r.begin, r.end, [&](const Fault& fault) {
        if (found.status.ok() || fault.sequence < found.sequence) found = fault;
      });
    }
  }
  if (found.status.ok() && cancelling_ && kinds == kPoisonOrStop) {
    found.status = absl::CancelledError("the engine was stopped before the task ran");
  }
  return found;
}

void Faults::Record(int64_t sequence, const Fault& fault, absl::Span<const Region> writes) {
  const std::lock_guard lock(mu_);
  if (first_.status.ok() || sequence < first_.sequence) first_ = {sequence, fault.status};
  for (const Region& r : writes) {
    if (r.begin < r.end) poisoned_[r.arena].Assign(r.begin, r.end, fault);
  }
  UpdateAny();
}

void Faults::Clear(const Region& region) {
  const std::lock_guard lock(mu_);
  const auto arena = poisoned_.find(region.arena);
  if (arena == poisoned_.end()) return;
  arena->second.Erase(region.begin, region.end);
  if (arena->second.empty()) poisoned_.erase(arena);
  UpdateAny();
}

void Faults::ClearAll() {
  const std::lock_guard lock(mu_);
  poisoned_.clear();
  first_ = {};
  UpdateAny();
}

absl::Status Faults::TakeFirst() {
  const std::lock_guard lock(mu_);
  return std::exchange(first_, {}).status;
}

void Faults::SetCancelling(bool cancelling) {
  const std::lock_guard lock(mu_);
  cancelling_ = cancelling;
  UpdateAny();
}

}  // namespace snug::core
