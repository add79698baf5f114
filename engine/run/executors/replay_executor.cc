#include "engine/run/executors/replay_executor.h"

#include <algorithm>
#include <utility>

#include "engine/base/parallel.h"

namespace snug::core {

ReplayExecutor::ReplayExecutor(const Executable& executable, const ArenaBytes& arenas)
    : BoundExecutor(executable, arenas) {
  Build();
  for (size_t s = 1; s < streams_.size(); ++s) {
    Stream* const stream = streams_[s].get();
    stream->thread = std::thread([this, stream] { Work(*stream); });
  }
}

ReplayExecutor::~ReplayExecutor() {
  stop_.store(true, std::memory_order_relaxed);
  for (const auto& stream : streams_) {
    if (!stream->thread.joinable()) continue;
    stream->go.Raise(1);
    stream->thread.join();
  }
}

void ReplayExecutor::Build() {
  const Schedule& schedule = executable_.schedule;
  std::vector<uint32_t> place(executable_.steps.size());  // each Step's place in its stream
  std::vector<char> signals(executable_.steps.size(), 0);
  for (const auto& [a, b] : schedule.waits) signals[static_cast<size_t>(a)] = 1;
  for (size_t s = 0; s < schedule.streams.size(); ++s) {
    streams_.push_back(std::make_unique<Stream>());
    streams_.back()->number = static_cast<int32_t>(s);
    for (size_t i = 0; i < schedule.streams[s].size(); ++i) {
      place[static_cast<size_t>(schedule.streams[s][i])] = static_cast<uint32_t>(i);
    }
  }
  for (const auto& stream : streams_) {
    for (const int32_t step : schedule.streams[static_cast<size_t>(stream->number)]) {
      Entry entry{.step = step,
                  .first_wait = static_cast<uint32_t>(stream->waits.size()),
                  .signals = signals[static_cast<size_t>(step)] != 0,
                  .mutates = executable_.steps[static_cast<size_t>(step)].mutates};
      const auto [begin, end] =
          std::equal_range(schedule.waits.begin(), schedule.waits.end(), std::pair<int32_t, int32_t>(0, step),
                           [](const auto& x, const auto& y) { return x.second < y.second; });
      for (auto wait = begin; wait != end; ++wait) {
        const auto a = static_cast<size_t>(wait->first);
        stream->waits.push_back({streams_[static_cast<size_t>(schedule.stream_of[a])].get(), place[a] + 1});
      }
      entry.last_wait = static_cast<uint32_t>(stream->waits.size());
      stream->entries.push_back(entry);
    }
  }
}

absl::Status ReplayExecutor::Run(Failure* failure) {
  SetThreadsPerOp(executable_.threads);
  for (const auto& stream : streams_) {  // safe, because all threads wait for `go` and read nothing
    stream->done.Reset();
    stream->mutated = false;
    if (!stream->entries.empty()) stream->at.store(Waiting(stream->entries[0].step), std::memory_order_relaxed);
  }
  asked_stop_.Begin();
  for (size_t s = 1; s < streams_.size(); ++s) streams_[s]->go.Raise(1);
  RunStream(*streams_[0]);
  for (size_t s = 1; s < streams_.size(); ++s) {
    streams_[s]->done.WaitFor(static_cast<uint32_t>(streams_[s]->entries.size()) + 1);
  }
  if (!failed_.load(std::memory_order_relaxed)) return asked_stop_.stopped() ? Stop::Error() : absl::OkStatus();
  failed_.store(false, std::memory_order_relaxed);
  for (const auto& stream : streams_) failure->variables_changed |= stream->mutated;
  const std::lock_guard<std::mutex> lock(mu_);
  failure->step = failed_step_;
  return std::exchange(status_, absl::OkStatus());
}

void ReplayExecutor::Work(Stream& stream) {
  SetThreadsPerOp(executable_.threads);
  while (true) {
    stream.go.WaitFor(1);
    stream.go.Reset();  // nobody raises it again before this round is done
    if (stop_.load(std::memory_order_relaxed)) return;
    RunStream(stream);
  }
}

void ReplayExecutor::RunStream(Stream& stream) {
  StepTime* const times = times_;
  uint32_t done = 0;
  for (const Entry& entry : stream.entries) {
    const int64_t turn = times == nullptr ? 0 : MonotonicNanoseconds();
    if (entry.first_wait < entry.last_wait) stream.at.store(Waiting(entry.step), std::memory_order_relaxed);
    for (uint32_t w = entry.first_wait; w < entry.last_wait; ++w)
      stream.waits[w].stream->done.WaitFor(stream.waits[w].done);
    stream.at.store(entry.step, std::memory_order_relaxed);
    if (!failed_.load(std::memory_order_relaxed) && !asked_stop_.LeavesOut(entry.mutates)) {
      const int64_t begin = times == nullptr ? 0 : MonotonicNanoseconds();
      stream.mutated |= entry.mutates;
      absl::Status status = steps_.Run(static_cast<size_t>(entry.step));
      if (!status.ok()) Fail(entry.step, std::move(status));
      if (times != nullptr) {
        times[entry.step] = {turn, begin, MonotonicNanoseconds(), stream.number};
      }
    }
    ++done;
    if (entry.signals) stream.done.Raise(done);
  }
  stream.at.store(kNowhere, std::memory_order_relaxed);
  stream.done.Raise(done + 1);  // one more than Steps: it says that the thread is through with this round
}

void ReplayExecutor::Fail(int32_t step, absl::Status status) {
  const std::lock_guard<std::mutex> lock(mu_);
  if (status_.ok() || static_cast<size_t>(step) < failed_step_) {
    status_ = std::move(status);
    failed_step_ = static_cast<size_t>(step);
  }
  failed_.store(true, std::memory_order_relaxed);
}

std::vector<Executor::At> ReplayExecutor::Running() const {
  std::vector<At> all;
  for (const auto& stream : streams_) {
    const int32_t at = stream->at.load(std::memory_order_relaxed);
    all.push_back(at < kNowhere ? At{Waiting(at), true} : At{at, false});
  }
  return all;
}

}  // namespace snug::core
