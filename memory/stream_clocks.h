// Knows what is surely done before a task begins when several streams run the tasks. It has a vector clock for each
// task, computed from the sequence of every stream and the waits between them. It is for verifiers only: the code that
// makes schedules must not share it.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace snug::core::memory {

class StreamClocks {
 public:
  // Tasks are numbered [0, tasks); `name` is used in errors. Fails with InvalidArgument unless every task runs once, in
  // one stream, and no task waits for itself in a circle. O((tasks + waits) x streams).
  static absl::StatusOr<StreamClocks> Create(int32_t tasks, const std::vector<std::vector<int32_t>>& streams,
                                             const std::vector<std::pair<int32_t, int32_t>>& waits,
                                             const std::function<std::string(int32_t task)>& name);

  // Tells whether in every run `a` is done before `b` begins.
  bool Before(int32_t a, int32_t b) const {
    return a != b &&
           done_[static_cast<size_t>(b) * streams_ + stream_[static_cast<size_t>(a)]] >= index_[static_cast<size_t>(a)];
  }

 private:
  absl::Status Run(const std::vector<std::vector<size_t>>& followers, std::vector<int32_t> waits_for);

  size_t streams_ = 0;
  std::vector<size_t> stream_;  // indexed by task
  std::vector<int32_t> index_;  // by task: its position in its stream
  std::vector<int32_t> done_;   // task x stream: the last task of the stream that is done by then, or -1
};

}  // namespace snug::core::memory
