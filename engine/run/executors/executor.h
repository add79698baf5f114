// Runs the Steps of an Executable. The bytes are given once, but the caller's buffers may differ in each run. Each
// executor has its own way: one Step after the other (the truth that all others must equal bit for bit), replayed on
// streams, or pushed through the dependency engine.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/compile/executable.h"
#include "engine/run/executors/stop.h"

namespace snug::core {

struct ArenaBytes;
class Poison;

// The times at which a stream came to a Step, began it after its waits, and had done it.
struct StepTime {
  int64_t turn_ns = 0, begin_ns = 0, end_ns = 0;
  int32_t stream = 0;
};

class Executor {
 public:
  static constexpr size_t kNoStep = static_cast<size_t>(-1);
  struct Failure {
    size_t step = kNoStep;           // the first that failed, by the Order; kNoStep: it is not known which
    bool variables_changed = false;  // whether a Step that mutates Variables has begun
  };

  virtual ~Executor() = default;

  // Runs every Step. After an error, Steps that have not begun are left out.
  virtual absl::Status Run(Failure* failure) = 0;
  // These do the same in two halves, for devices that go on by themselves: Begin returns when everything is queued,
  // Finish when it is done. The next run may begin before that; runs come in sequence.
  virtual absl::Status Begin(Failure* failure) { return Run(failure); }
  virtual absl::Status Finish(Failure* /*failure*/) { return absl::OkStatus(); }

  // Return the bytes, by number, into which the host writes what it feeds, and from which it reads what it fetches.
  virtual std::byte* InputBytes(size_t input) const = 0;
  virtual std::byte* OutputBytes(size_t output) const = 0;
  // Must be called before the host writes, or reads, these bytes: an executor may have them somewhere else. Feed must
  // come before InputBytes, whose result may change by it.
  virtual absl::Status Feed(size_t /*input*/) { return absl::OkStatus(); }
  virtual absl::Status Fetch(size_t /*output*/) { return absl::OkStatus(); }

  // Sends what has been fed to the device now, for the next run, even if a run is under way. Does nothing where that is
  // impossible.
  virtual absl::Status UploadAhead() { return absl::OkStatus(); }
  // Tells whether the next run finds the input outside of the arenas, whatever runs before it.
  virtual bool UploadedAhead(size_t /*input*/) const { return false; }

  // Tells between runs that the caller has bound another buffer, by its number in the Executable.
  virtual void Rebind(size_t caller_buffer) = 0;

  // That a Step's kernel could not be had on this device: what its library said. Step::instead serves, or the library's
  // kernel does, but by another algorithm than the one that it had chosen.
  struct Refused {
    size_t step = kNoStep;
    std::string why;
    bool another_algorithm = false;
  };
  // Returns those that it has not returned before, each Step once.
  virtual std::vector<Refused> TakeRefused() { return {}; }

  // Writes the time of each Step, by its number, from the next run on. Null ends that.
  void SetTimes(StepTime* times) { times_ = times; }

  // While `*asked` is true, a run fails with Cancelled, and leaves out the Steps that have not begun, unless it has
  // begun to change Variables: then it runs to its end. Another thread may ask at any time. Runs on a device and those
  // of check_access are not stopped.
  void StopWhere(const std::atomic<bool>* asked) { asked_stop_.Watch(asked); }

  // Says what a stream is doing. Another thread may ask for it.
  struct At {
    int32_t step = -1;     // -1: none
    bool waiting = false;  // it waits for Steps of other streams before this one; without a step: for a device that has
                           // the whole step
    friend bool operator==(const At&, const At&) = default;
  };
  virtual std::vector<At> Running() const = 0;

 protected:
  StepTime* times_ = nullptr;
  Stop asked_stop_;
};

// Reads a clock that never goes back.
int64_t MonotonicNanoseconds();

// The table of the executors, by the names that --engine= takes. Only executor.cc knows them all.
enum class ExecutorKind : uint8_t { kReplay, kSerial, kDynamic };

struct ExecutorInfo {
  ExecutorKind kind;
  absl::string_view name;  // the name as written after --engine=
  bool needs_plan;         // it cannot run where memory is dynamic
  bool side_by_side;       // it runs Steps of different streams at the same time
};
absl::Span<const ExecutorInfo> Executors();
const ExecutorInfo& InfoOf(ExecutorKind kind);

absl::string_view ExecutorName(ExecutorKind kind);
absl::StatusOr<ExecutorKind> ParseExecutor(absl::string_view name);

// Fails with InvalidArgument if the executor needs a plan and the Executable's memory is dynamic.
absl::Status CheckPlanned(ExecutorKind kind, const Executable& executable);

// The Executable and `poison` (which only the serial engine takes; may be null) must outlive the result.
absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorKind kind, const Executable& executable,
                                                       const ArenaBytes& arenas, Poison* poison);

}  // namespace snug::core
