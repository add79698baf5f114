#include "engine/run/cuda/cuda_tasks.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"

namespace snug::core {

struct CudaTasks::Policy {
  Clock* wanted;
  // The host cannot see this, because events do not tell it; Forget() is called when all have finished.
  bool Finished(const Who&) const { return false; }
  void Wait(const Who& who) {
    int64_t& count = (*wanted)[who.stream];
    count = std::max(count, who.number + 1);
  }
};

CudaTasks::CudaTasks(const CudaStreams& streams, size_t count) : streams_(streams), events_(streams.device()) {
  tasks_.resize(count);
  for (Stream& stream : tasks_) stream.before.assign(count, 0);
}

// Says whether another wanted task already comes after the one of `stream`.
bool CudaTasks::Implied(const Clock& wanted, size_t stream) const {
  for (size_t other = 0; other < wanted.size(); ++other) {
    if (other == stream || wanted[other] == 0) continue;
    const Pushed& last = tasks_[other].tasks[static_cast<size_t>(wanted[other] - 1)];
    if (last.before[stream] >= wanted[stream]) return true;
  }
  return false;
}

absl::Status CudaTasks::WaitForAll(size_t stream, const Clock& wanted) {
  Clock& before = tasks_[stream].before;
  for (size_t other = 0; other < wanted.size(); ++other) {
    if (wanted[other] <= before[other] || Implied(wanted, other)) continue;
    const Pushed& last = tasks_[other].tasks[static_cast<size_t>(wanted[other] - 1)];
    SNUG_RETURN_IF_ERROR(streams_[stream].WaitFor(*last.done));
    ++waits_;
    for (size_t s = 0; s < before.size(); ++s) before[s] = std::max(before[s], last.before[s]);
  }
  return absl::OkStatus();
}

absl::Status CudaTasks::Push(size_t stream, absl::Span<const Access> accesses,
                             const std::function<absl::Status()>& ask) {
  if (tasks_.size() == 1) return ask();
  Stream& mine = tasks_[stream];
  const Who who{stream, static_cast<int64_t>(mine.tasks.size())};
  Clock wanted(tasks_.size(), 0);
  for (const Access& access : accesses) history_.Add(access, who, Policy{&wanted});
  SNUG_RETURN_IF_ERROR(WaitForAll(stream, wanted));
  SNUG_RETURN_IF_ERROR(ask());
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<cuda::CudaEvent> done, events_.Take());
  SNUG_RETURN_IF_ERROR(streams_[stream].Record(*done));
  mine.before[stream] = who.number + 1;
  mine.tasks.push_back({std::move(done), mine.before});
  return absl::OkStatus();
}

void CudaTasks::Forget() {
  for (Stream& stream : tasks_) {
    for (Pushed& task : stream.tasks) events_.Give(std::move(task.done));
    stream.tasks.clear();
    stream.before.assign(tasks_.size(), 0);
  }
  history_ = {};
}

}  // namespace snug::core
