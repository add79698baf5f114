// A pushed task, as both engines keep it until it has run. Records are reused, and their vectors keep their capacity.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/run/dependency/engine.h"
#include "engine/run/dependency/faults.h"
#include "engine/run/dependency/tag_table.h"

namespace snug::core {

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
