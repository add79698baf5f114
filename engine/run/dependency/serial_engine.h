// The debug engine: every task runs at once, on the pushing thread, and tasks that it pushes run next. Every other
// engine must give its results. Thread-compatible.
#pragma once

#include <deque>
#include <utility>

#include "engine/run/dependency/engine.h"
#include "engine/run/dependency/task_record.h"

namespace snug::core {

class SerialEngine final : public Engine {
 public:
  Tag NewTag() override { return tags_.New(); }
  absl::Status Delete(Tag tag, TaskFunction destroy) override;
  absl::StatusOr<int64_t> Version(Tag tag) override;
  absl::Status Push(const Task& task, TaskFunction function) override;
  absl::Status Wait(const Region& region) override;
  absl::Status WaitAll() override;
  absl::Status Acknowledge(const Region& region) override;
  absl::Status AcknowledgeAll() override;
  absl::Status Stop(StopMode mode) override;
  void Start() override { accepting_ = true; }

 private:
  absl::Status CheckOutside(absl::string_view what) const;
  void Run(TaskRecord record, Device device);

  struct Pushed {
    TaskRecord record;
    Device device;
  };

  TagTable tags_;
  Faults faults_;
  std::deque<Pushed> queue_;  // empty except for tasks that a running task has pushed
  int64_t last_sequence_ = 0;
  bool running_ = false;
  bool accepting_ = true;
};

}  // namespace snug::core
