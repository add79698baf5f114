// The dependency engine. Tasks say what they read and write. A task runs as soon as no earlier task conflicts with it
// (engine/base/conflict.h); tasks that conflict run in the sequence in which they were pushed.
//
//   auto engine = DynamicEngine::Create({.devices = {{.device = {}, .workers = 2}}}).value();
//   const Tag batch = engine->NewTag(), loss = engine->NewTag();
//   engine->Push({.writes = {batch}}, [&] { return Load(&image); });
//   engine->Push({.reads = {batch}, .writes = {loss}, .priority = 1}, [&] { return Train(image); });
//   SNUG_RETURN_IF_ERROR(engine->Wait(loss));
//
// Errors: a task that fails poisons what it writes. A task that reads or writes something poisoned is skipped, passes
// the error on, and poisons what it writes too. Wait() returns the error of what it waits for, each time, until that is
// acknowledged. WaitAll() returns the first error (by the sequence of pushes) that it has not returned yet, and the
// engine goes on. Push() itself only fails for mistakes of the caller, and then nothing is pushed.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>

#include "engine/base/conflict.h"
#include "engine/base/device.h"
#include "engine/run/dependency/task_function.h"

namespace snug::core {

struct Task {
  // Tags and Regions may be mixed. Duplicates are allowed, and what is both read and written counts as written.
  absl::Span<const Region> reads = {};
  absl::Span<const Region> writes = {};
  Device device = {};
  int stream = -1;    // a hint: tasks of one number run on one stream of the device, unless another would stand idle
  int priority = 0;   // the highest runs first among the tasks that are ready on a device
  int64_t bytes = 0;  // what it holds until it has finished; counts towards the limit on pushing ahead
};

enum class StopMode {
  kFinish,  // runs all that was pushed
  kCancel,  // skips what has not begun, as if it had failed with a Cancelled error; deletions are still carried out
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual Tag NewTag() = 0;
  // Is queued like a write behind everything that uses the tag, and is carried out whatever has failed. Later calls
  // must not use the tag. `destroy` then runs, on any thread.
  virtual absl::Status Delete(Tag tag, TaskFunction destroy = {}) = 0;
  // Returns how many writes to the tag have finished, also failed and skipped ones.
  virtual absl::StatusOr<int64_t> Version(Tag tag) = 0;

  // Blocks while too much that was pushed is unfinished, but never when a task calls it.
  virtual absl::Status Push(const Task& task, TaskFunction function) = 0;

  // Waits until the region can be read, that is, for all writes pushed before but not for reads. Tasks must not wait.
  virtual absl::Status Wait(const Region& region) = 0;
  // Waits until everything has finished.
  virtual absl::Status WaitAll() = 0;

  // Lets tasks that are pushed from now on use the region again after an error. Is queued like a write; does not block.
  virtual absl::Status Acknowledge(const Region& region) = 0;
  // Waits for everything, then forgets every error.
  virtual absl::Status AcknowledgeAll() = 0;

  // A stopped engine refuses tasks, but tags can be made, waited for and deleted. Destruction stops it, in mode
  // kFinish. Start() on a running and Stop() on a stopped engine do nothing.
  virtual absl::Status Stop(StopMode mode = StopMode::kFinish) = 0;
  virtual void Start() = 0;
};

}  // namespace snug::core
