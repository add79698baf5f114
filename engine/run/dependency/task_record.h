// What both engines keep: their tags, what went wrong, and pushed tasks until they have run.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/base/conflict.h"
#include "engine/base/interval_map.h"
#include "engine/run/dependency/engine.h"

namespace snug::core {

// The tags of an engine: which exist, and their versions. The slot of a tag is reused, with another generation, once
// the tag's deletion was carried out. Thread-compatible, except Free() and versions: only tasks that write the tag use
// those.
class TagTable {
 public:
  using Version = std::atomic<int64_t>;

  Tag New();
  // Makes the tag unknown from now on. Its slot stays taken until Free().
  void Retire(Tag tag) { ++generations_[static_cast<size_t>(tag.index)]; }
  void Free(int32_t index);

  // The error says what is wrong with a region that a caller gave.
  absl::Status Check(const Region& region) const;
  absl::Status Check(absl::Span<const Region> regions) const;
  // Returns null for regions that are not tags. The version stays at its place as long as the table.
  Version* FindVersion(const Region& region);

 private:
  // Both are indexed by tag. They are kept apart because pushers read generations all the time, and workers write
  // versions.
  std::vector<int32_t> generations_;
  std::deque<Version> versions_;
  std::mutex free_mu_;  // guards free_
  std::vector<int32_t> free_;
};

// Knows what went wrong in an engine: which regions are poisoned by which error, and the first error that was not
// reported yet. Thread-safe. As long as nothing fails, a task only costs one load of a flag. The flag needs no lock,
// because by the dependency rule whoever must see an error runs after the task that recorded it.
class Faults {
 public:
  struct Fault {
    int64_t sequence = 0;  // the task that failed
    absl::Status status;
  };

  bool any() const { return any_.load(std::memory_order_acquire); }

  // Returns the earliest fault on one of the regions; otherwise Cancelled while cancelling, if that is asked for;
  // otherwise OK.
  enum Kinds { kPoison, kPoisonOrStop };
  Fault Find(absl::Span<const Region> reads, absl::Span<const Region> writes, Kinds kinds) const;
  // Records that task `sequence` did not do its work because of `fault`.
  void Record(int64_t sequence, const Fault& fault, absl::Span<const Region> writes);
  void Clear(const Region& region);
  void ClearAll();
  // Returns the fault of the earliest task that was recorded since the last call.
  absl::Status TakeFirst();
  void SetCancelling(bool cancelling);

 private:
  void UpdateAny() { any_.store(cancelling_ || !poisoned_.empty(), std::memory_order_release); }

  std::atomic<bool> any_{false};
  mutable std::mutex mu_;  // guards all members below
  bool cancelling_ = false;
  std::map<int32_t, IntervalMap<Fault>> poisoned_;  // by arena; none of the maps is empty
  Fault first_;                                     // its sequence is that of the task that it kept from running
};

// A pushed task, until it has run. Records are reused, and their vectors keep their capacity.
class TaskRecord {
 public:
  // The regions must have been checked against `tags`.
  void Fill(const Task& task, TaskFunction function, TagTable& tags);
  // Makes it a task of the engine itself, which no error skips and which changes no version.
  void Internal(TaskFunction function);

  // Runs the function, or passes on the fault on what the task reads or writes. Counts the writes.
  void Run(const TaskContext& context, int64_t sequence, Faults& faults);

 private:
  // What every run needs comes first, in one cache line, because another core has written it.
  TagTable::Version* version_ = nullptr;  // of the first tag that it writes
  TaskFunction function_;
  bool internal_ = false;
  bool several_versions_ = false;
  std::vector<TagTable::Version*> more_versions_;  // of the other tags
  std::vector<Region> reads_, writes_;
};

}  // namespace snug::core
