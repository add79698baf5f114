// The dependency rule (engine/base/conflict.h) on CUDA streams. Tasks are asked of streams as they are pushed, each
// after those before it that it conflicts with. That takes no thread, and the host waits for nothing: streams wait for
// events, and only if neither a stream's own sequence nor an earlier wait has the same effect.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/base/access_history.h"
#include "engine/run/cuda/cuda_streams.h"

namespace snug::core {

// Thread-compatible.
class CudaTasks {
 public:
  // Pushes to the first `count` streams, which must outlive it.
  CudaTasks(const CudaStreams& streams, size_t count);

  // Pushes a task. `ask` asks the stream for its work.
  absl::Status Push(size_t stream, absl::Span<const Access> accesses, const std::function<absl::Status()>& ask);
  // Puts whatever is pushed from now on after all that was pushed. The caller has made sure that it comes after.
  void Forget();

  // Returns how often streams were made to wait so far.
  int64_t waits() const { return waits_; }

 private:
  // A task, as a number among those of its stream.
  struct Who {
    size_t stream = 0;
    int64_t number = 0;
    friend bool operator==(const Who&, const Who&) = default;
  };
  // Indexed by stream: how many of its tasks come before something.
  using Clock = std::vector<int64_t>;
  struct Pushed {
    std::unique_ptr<cuda::CudaEvent> done;  // goes back to events_ when nobody can wait for it any more
    Clock before;                           // what comes before its end; the task itself counts, too
  };
  struct Stream {
    std::vector<Pushed> tasks;
    Clock before;  // what comes before the next task of the stream
  };
  struct Policy;

  bool Implied(const Clock& wanted, size_t stream) const;
  absl::Status WaitForAll(size_t stream, const Clock& wanted);

  const CudaStreams& streams_;
  cuda::EventPool events_;
  AccessHistory<Who> history_;
  std::vector<Stream> tasks_;
  int64_t waits_ = 0;
};

}  // namespace snug::core
