// The dependency engine: tasks say what they read and write, and run as soon as nothing they conflict with is before
// them (engine/base/conflict.h), in the sequence in which they were pushed wherever they do.
//
//   auto engine = DynamicEngine::Create({.devices = {{.device = {}, .workers = 2}}}).value();
//   const Tag batch = engine->NewTag(), loss = engine->NewTag();
//   engine->Push({.writes = {batch}}, [&] { return Load(&image); });
//   engine->Push({.reads = {batch}, .writes = {loss}, .priority = 1}, [&] { return Train(image); });
//   SNUG_RETURN_IF_ERROR(engine->Wait(loss));
//
// Errors. A task that fails poisons what it writes. A task that reads or writes something poisoned is skipped, passes
// the error on, and poisons what it writes too. Wait() returns the error of what it waits for, each time, until that is
// acknowledged; WaitAll() returns the first error (by the sequence of pushes) that it has not returned yet, and the
// engine goes on. Push() itself fails only for mistakes of the caller; then nothing was pushed.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>

#include "engine/base/conflict.h"
#include "engine/base/stream.h"
#include "engine/run/task_function.h"

namespace snug {

struct Task {
  // Tags and Regions, mixed; duplicates are allowed, and what is both read and written counts as written.
  absl::Span<const Region> reads = {};
  absl::Span<const Region> writes = {};
  Device device = {};
  int stream = -1;    // a hint: tasks of one number run on one stream of the device, unless another would stand idle
  int priority = 0;   // of the tasks that are ready on a device, the highest runs first
  int64_t bytes = 0;  // what it holds until it has finished: counts towards the limit on pushing ahead
};

enum class StopMode {
  kFinish,  // runs all that was pushed
  kCancel,  // skips what has not begun, as if it had failed with a Cancelled error; deletions are carried out
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual Tag NewTag() = 0;
  // Queued like a write behind everything that uses the tag, and carried out whatever failed; the tag may not be used
  // in later calls. `destroy` runs then, on any thread.
  virtual absl::Status Delete(Tag tag, TaskFunction destroy = {}) = 0;
  // How many writes to the tag have finished, failed and skipped ones too.
  virtual absl::StatusOr<int64_t> Version(Tag tag) = 0;

  // Blocks while too much that was pushed has not finished, but never when called by a task.
  virtual absl::Status Push(const Task& task, TaskFunction function) = 0;

  // Waits until the region can be read: for all writes pushed before, not for reads. Tasks cannot wait.
  virtual absl::Status Wait(const Region& region) = 0;
  // Waits until nothing is unfinished.
  virtual absl::Status WaitAll() = 0;

  // The region can be used again by tasks that are pushed from now on. Queued like a write; does not block.
  virtual absl::Status Acknowledge(const Region& region) = 0;
  // Waits for all, then forgets every error.
  virtual absl::Status AcknowledgeAll() = 0;

  // While it is stopped, an engine refuses tasks; tags can be made, waited for and deleted. Destruction stops it, in
  // mode kFinish. Start() on a running and Stop() on a stopped engine do nothing.
  virtual absl::Status Stop(StopMode mode = StopMode::kFinish) = 0;
  virtual void Start() = 0;
};

}  // namespace snug
