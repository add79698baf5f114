#include <absl/strings/str_cat.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "engine/base/status.h"
#include "memory/stream_clocks.h"
#include "memory/verifier.h"

namespace snug::core::memory {
namespace {

class Verifier {
 public:
  Verifier(const Tasks& tasks, const TaskOrder& order, const Plan& plan, const StreamClocks& clocks)
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

  // Tells whether `a` comes before `b` in the order and is done before it in every run.
  bool Before(size_t a, size_t b) const {
    return clocks_.Before(static_cast<int32_t>(a), static_cast<int32_t>(b)) && position_[a] < position_[b];
  }

  absl::Status CheckBefore(size_t a, size_t b, absl::string_view why) const {
    if (Before(a, b)) return absl::OkStatus();
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

  // Puts the value where it lies, and checks it against all values that it overwrites.
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
      if (Before(use, writer)) return absl::OkStatus();
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
  const StreamClocks& clocks_;
  std::vector<size_t> position_;
  std::set<std::pair<size_t, size_t>> in_place_;  // (output, input)
  std::map<int64_t, Piece> there_;                // what was written last, keyed by where it begins
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
  const auto name = [&tasks](int32_t task) { return tasks.names[static_cast<size_t>(task)]; };
  SNUG_ASSIGN_OR_RETURN(const StreamClocks clocks,
                        StreamClocks::Create(tasks.size(), schedule.streams, schedule.waits, name));
  return Verifier(tasks, order, plan, clocks).Verify();
}

}  // namespace snug::core::memory
