// Runs the Steps of an Executable on bytes given once, but for the caller's, which may be others in each run. How is
// each executor's own: one after the other (the truth that all others equal bit for bit), replayed on streams, or
// pushed through the dependency engine.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace snug {

// When a stream turned to a Step, began it after its waits, and had done it.
struct StepTime {
  int64_t turn_ns = 0, begin_ns = 0, end_ns = 0;
  int32_t stream = 0;
};

class Executor {
 public:
  static constexpr size_t kNoStep = static_cast<size_t>(-1);
  struct Failure {
    size_t step = kNoStep;           // the first of those that failed, by the Order; kNoStep: which is not known
    bool variables_changed = false;  // a Step that mutates Variables has begun
  };

  virtual ~Executor() = default;

  // Runs every Step. On an error the rest is left out as far as it has not begun.
  virtual absl::Status Run(Failure* failure) = 0;
  // The same in two halves, where a device goes on by itself: Begin returns when everything is asked for, Finish when
  // it is done. Another run may begin before, in sequence.
  virtual absl::Status Begin(Failure* failure) { return Run(failure); }
  virtual absl::Status Finish(Failure* /*failure*/) { return absl::OkStatus(); }

  // Where the host finds what is fed and fetched, by number.
  virtual std::byte* InputBytes(size_t input) const = 0;
  virtual std::byte* OutputBytes(size_t output) const = 0;
  // These bytes are about to be written; or read. For who has them elsewhere in truth. Before InputBytes, which may be
  // others after it.
  virtual absl::Status Feed(size_t /*input*/) { return absl::OkStatus(); }
  virtual absl::Status Fetch(size_t /*output*/) { return absl::OkStatus(); }

  // What has been fed goes to the device now, for the next run, though one is under way. Does nothing where that
  // cannot be.
  virtual absl::Status UploadAhead() { return absl::OkStatus(); }
  // Whether the next run finds the input outside of the arenas, whatever runs before it.
  virtual bool UploadedAhead(size_t /*input*/) const { return false; }

  // The caller has bound another buffer, by its number in the Executable. Between runs.
  virtual void Rebind(size_t caller_buffer) = 0;

  // That a Step's kernel was to be one of a library, and our own served: what the library said.
  struct Refused {
    size_t step = kNoStep;
    std::string library, why;
  };
  // Those of which this has not told yet, each Step once.
  virtual std::vector<Refused> TakeRefused() { return {}; }

  // Writes the time of each Step, by its number, from the next run on. Null: no longer.
  void SetTimes(StepTime* times) { times_ = times; }

  // What each stream is at. For whoever watches from another thread.
  struct At {
    int32_t step = -1;     // none
    bool waiting = false;  // before it, for Steps of other streams; before none: for a device that has the whole step
    friend bool operator==(const At&, const At&) = default;
  };
  virtual std::vector<At> Running() const = 0;

 protected:
  StepTime* times_ = nullptr;
};

// Of a clock that never goes back.
int64_t MonotonicNanoseconds();

}  // namespace snug
