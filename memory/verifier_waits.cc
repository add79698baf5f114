#include "memory/verifier_waits.h"

#include <absl/status/statusor.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "engine/base/status.h"

namespace snug::memory {
namespace {

// How far each stream is at least when a task begins: a vector clock with an entry for each stream.
class Clocks {
 public:
  static absl::StatusOr<Clocks> Create(const Tasks& tasks, const StreamSchedule& schedule) {
    const auto n = static_cast<size_t>(tasks.size());
    Clocks clocks;
    clocks.streams_ = schedule.streams.size();
    clocks.stream_.assign(n, clocks.streams_);
    clocks.index_.assign(n, 0);
    std::vector<std::vector<size_t>> followers(n);
    std::vector<int32_t> waits_for(n, 0);
    const auto add = [&](size_t a, size_t b) {
      followers[a].push_back(b);
      ++waits_for[b];
    };
    for (size_t s = 0; s < clocks.streams_; ++s) {
      for (size_t i = 0; i < schedule.streams[s].size(); ++i) {
        const auto task = static_cast<size_t>(schedule.streams[s][i]);
        if (task >= n) return absl::InvalidArgumentError(absl::StrCat("stream ", s, ": there is no task ", task));
        if (clocks.stream_[task] != clocks.streams_) {
          return absl::InvalidArgumentError(absl::StrCat("task \"", tasks.names[task], "\" runs twice"));
        }
        clocks.stream_[task] = s;
        clocks.index_[task] = static_cast<int32_t>(i);
        if (i > 0) add(static_cast<size_t>(schedule.streams[s][i - 1]), task);
      }
    }
    for (size_t t = 0; t < n; ++t) {
      if (clocks.stream_[t] != clocks.streams_) continue;
      return absl::InvalidArgumentError(absl::StrCat("task \"", tasks.names[t], "\" runs in no stream"));
    }
    for (const auto& [a, b] : schedule.waits) {
      if (static_cast<size_t>(a) >= n || static_cast<size_t>(b) >= n) {
        return absl::InvalidArgumentError(absl::StrCat("wait ", a, " -> ", b, ": no such task"));
      }
      add(static_cast<size_t>(a), static_cast<size_t>(b));
    }
    return Run(std::move(clocks), followers, std::move(waits_for));
  }

  // In every run `a` is done before `b` begins.
  bool Before(size_t a, size_t b) const { return a != b && done_[b * streams_ + stream_[a]] >= index_[a]; }

 private:
  static absl::StatusOr<Clocks> Run(Clocks clocks, const std::vector<std::vector<size_t>>& followers,
                                    std::vector<int32_t> waits_for) {
    const size_t n = followers.size();
    clocks.done_.assign(n * clocks.streams_, -1);
    std::vector<size_t> ready;
    for (size_t t = 0; t < n; ++t) {
      if (waits_for[t] == 0) ready.push_back(t);
    }
    for (size_t next = 0; next < ready.size(); ++next) {
      const size_t task = ready[next];
      for (const size_t follower : followers[task]) {
        for (size_t s = 0; s < clocks.streams_; ++s) {
          int32_t& done = clocks.done_[follower * clocks.streams_ + s];
          done = std::max(done, clocks.done_[task * clocks.streams_ + s]);
        }
        int32_t& own = clocks.done_[follower * clocks.streams_ + clocks.stream_[task]];
        own = std::max(own, clocks.index_[task]);
        if (--waits_for[follower] == 0) ready.push_back(follower);
      }
    }
    if (ready.size() < n) return absl::InvalidArgumentError("the streams wait for each other in a circle");
    return clocks;
  }

  size_t streams_ = 0;
  std::vector<size_t> stream_;  // of each task
  std::vector<int32_t> index_;  // of each task in its stream
  std::vector<int32_t> done_;   // task x stream: the last task of the stream that is done, -1: none
};

class Verifier {
 public:
  Verifier(const Tasks& tasks, const TaskOrder& order, const Plan& plan, const Clocks& clocks)
      : tasks_(tasks), order_(order), plan_(plan), clocks_(clocks), position_(order.size()) {
    for (size_t at = 0; at < order.size(); ++at) position_[static_cast<size_t>(order[at])] = at;
    for (const TaskInPlace& pair : tasks.in_place) {
      in_place_.emplace(static_cast<size_t>(pair.output), static_cast<size_t>(pair.input));
    }
  }

  absl::Status Verify() {
    SNUG_RETURN_IF_ERROR(CheckPlaces());
    SNUG_RETURN_IF_ERROR(CheckNeeds());
    std::vector<std::vector<size_t>> written_by(order_.size());
    for (size_t v = 0; v < tasks_.values.size(); ++v) {
      const TaskValue& value = tasks_.values[v];
      if (value.size_bytes == 0) continue;
      if (value.producer >= 0 && !value.resident) {
        written_by[static_cast<size_t>(value.producer)].push_back(v);
        continue;
      }
      SNUG_RETURN_IF_ERROR(LayDown(v));
    }
    for (const int32_t task : order_) {
      for (const size_t v : written_by[static_cast<size_t>(task)]) SNUG_RETURN_IF_ERROR(LayDown(v));
    }
    return absl::OkStatus();
  }

 private:
  std::string Name(size_t v) const {
    return absl::StrCat("\"", tasks_.values[v].name, "\" (", tasks_.values[v].size_bytes, " bytes at ",
                        plan_.offsets[v], ")");
  }

  absl::Status CheckPlaces() const {
    for (size_t v = 0; v < tasks_.values.size(); ++v) {
      const TaskValue& value = tasks_.values[v];
      const int64_t offset = plan_.offsets[v];
      if (offset >= 0 && offset % value.alignment == 0 && offset <= plan_.arena_bytes - value.size_bytes) continue;
      return absl::InvalidArgumentError(absl::StrCat("value ", Name(v), ": expected a multiple of ", value.alignment,
                                                     " inside the arena of ", plan_.arena_bytes, " bytes"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckBefore(size_t a, size_t b, absl::string_view why) const {
    if (clocks_.Before(a, b) && position_[a] < position_[b]) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("task \"", tasks_.names[b], "\" may run before \"", tasks_.names[a], "\" is done: ", why));
  }

  absl::Status CheckNeeds() const {
    for (const TaskValue& value : tasks_.values) {
      if (value.producer < 0 || value.resident) continue;
      for (const int32_t reader : value.readers) {
        SNUG_RETURN_IF_ERROR(CheckBefore(static_cast<size_t>(value.producer), static_cast<size_t>(reader),
                                         absl::StrCat("it reads \"", value.name, "\"")));
      }
    }
    for (const auto& [a, b] : tasks_.edges) {
      SNUG_RETURN_IF_ERROR(CheckBefore(static_cast<size_t>(a), static_cast<size_t>(b), "an edge says so"));
    }
    return absl::OkStatus();
  }

  // Puts the value where it lies, over what is there from before.
  absl::Status LayDown(size_t v) {
    const int64_t begin = plan_.offsets[v];
    const int64_t end = begin + tasks_.values[v].size_bytes;
    auto at = there_.upper_bound(begin);
    if (at != there_.begin() && std::prev(at)->second.end > begin) --at;
    while (at != there_.end() && at->first < end) {
      const Piece under = at->second;
      const int64_t under_begin = at->first;
      SNUG_RETURN_IF_ERROR(CheckOver(v, under.value));
      at = there_.erase(at);
      if (under_begin < begin) there_.emplace(under_begin, Piece{begin, under.value});
      if (under.end > end) at = there_.emplace(end, under).first;
    }
    there_.emplace(begin, Piece{end, v});
    return absl::OkStatus();
  }

  absl::Status CheckOver(size_t v, size_t under) const {
    const TaskValue& value = tasks_.values[v];
    const TaskValue& old = tasks_.values[under];
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("values ", Name(under), " and ", Name(v), " overlap, and ", what));
    };
    if (value.producer < 0 || value.resident) return wrong("both are there before the first task");
    if (old.resident || old.fetched) return wrong("the first must be there after the last task");
    const auto writer = static_cast<size_t>(value.producer);
    const bool over_input = in_place_.count({v, under}) > 0 && plan_.offsets[v] == plan_.offsets[under] &&
                            value.size_bytes <= old.size_bytes;
    const auto check_done = [&](int32_t task) {
      const auto use = static_cast<size_t>(task);
      if (clocks_.Before(use, writer) && position_[use] < position_[writer]) return absl::OkStatus();
      return wrong(absl::StrCat("\"", tasks_.names[writer], "\" may write the second before \"", tasks_.names[use],
                                "\" is done with the first"));
    };
    if (old.producer >= 0) SNUG_RETURN_IF_ERROR(check_done(old.producer));
    for (const int32_t reader : old.readers) {
      if (reader != value.producer || !over_input) SNUG_RETURN_IF_ERROR(check_done(reader));
    }
    return absl::OkStatus();
  }

  struct Piece {
    int64_t end;
    size_t value;
  };

  const Tasks& tasks_;
  const TaskOrder& order_;
  const Plan& plan_;
  const Clocks& clocks_;
  std::vector<size_t> position_;
  std::set<std::pair<size_t, size_t>> in_place_;  // output, input
  std::map<int64_t, Piece> there_;                // what was written last, by where it begins
};

}  // namespace

absl::Status VerifyUnderWaits(const Tasks& tasks, const TaskOrder& order, const StreamSchedule& schedule,
                              const Plan& plan) {
  SNUG_RETURN_IF_ERROR(CheckTasks(tasks));
  SNUG_RETURN_IF_ERROR(CheckOrder(tasks, order));
  if (plan.offsets.size() != tasks.values.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has ", plan.offsets.size(), " offsets, expected ",
                                                   tasks.values.size(), ", one for each value"));
  }
  SNUG_ASSIGN_OR_RETURN(const Clocks clocks, Clocks::Create(tasks, schedule));
  return Verifier(tasks, order, plan, clocks).Verify();
}

}  // namespace snug::memory
