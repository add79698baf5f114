#include "memory/stream_clocks.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "engine/base/status.h"

namespace snug::core::memory {

absl::StatusOr<StreamClocks> StreamClocks::Create(int32_t tasks, const std::vector<std::vector<int32_t>>& streams,
                                                  const std::vector<std::pair<int32_t, int32_t>>& waits,
                                                  const std::function<std::string(int32_t task)>& name) {
  const auto n = static_cast<size_t>(tasks);
  StreamClocks clocks;
  clocks.streams_ = streams.size();
  clocks.stream_.assign(n, clocks.streams_);
  clocks.index_.assign(n, 0);
  std::vector<std::vector<size_t>> followers(n);
  std::vector<int32_t> waits_for(n, 0);
  const auto add = [&](size_t a, size_t b) {
    followers[a].push_back(b);
    ++waits_for[b];
  };
  for (size_t s = 0; s < clocks.streams_; ++s) {
    for (size_t i = 0; i < streams[s].size(); ++i) {
      const auto task = static_cast<size_t>(streams[s][i]);
      if (task >= n) return absl::InvalidArgumentError(absl::StrCat("stream ", s, ": there is no task ", task));
      if (clocks.stream_[task] != clocks.streams_) {
        return absl::InvalidArgumentError(absl::StrCat("task \"", name(streams[s][i]), "\" runs twice"));
      }
      clocks.stream_[task] = s;
      clocks.index_[task] = static_cast<int32_t>(i);
      if (i > 0) add(static_cast<size_t>(streams[s][i - 1]), task);
    }
  }
  for (size_t t = 0; t < n; ++t) {
    if (clocks.stream_[t] != clocks.streams_) continue;
    return absl::InvalidArgumentError(absl::StrCat("task \"", name(static_cast<int32_t>(t)), "\" runs in no stream"));
  }
  for (const auto& [a, b] : waits) {
    if (static_cast<size_t>(a) >= n || static_cast<size_t>(b) >= n) {
      return absl::InvalidArgumentError(absl::StrCat("wait ", a, " -> ", b, ": no such task"));
    }
    add(static_cast<size_t>(a), static_cast<size_t>(b));
  }
  SNUG_RETURN_IF_ERROR(clocks.Run(followers, std::move(waits_for)));
  return clocks;
}

absl::Status StreamClocks::Run(const std::vector<std::vector<size_t>>& followers, std::vector<int32_t> waits_for) {
  const size_t n = followers.size();
  done_.assign(n * streams_, -1);
  std::vector<size_t> ready;
  for (size_t t = 0; t < n; ++t) {
    if (waits_for[t] == 0) ready.push_back(t);
  }
  for (size_t next = 0; next < ready.size(); ++next) {
    const size_t task = ready[next];
    for (const size_t follower : followers[task]) {
      for (size_t s = 0; s < streams_; ++s) {
        int32_t& done = done_[follower * streams_ + s];
        done = std::max(done, done_[task * streams_ + s]);
      }
      int32_t& own = done_[follower * streams_ + stream_[task]];
      own = std::max(own, index_[task]);
      if (--waits_for[follower] == 0) ready.push_back(follower);
    }
  }
  if (ready.size() < n) return absl::InvalidArgumentError("the streams wait for each other in a circle");
  return absl::OkStatus();
}

}  // namespace snug::core::memory
