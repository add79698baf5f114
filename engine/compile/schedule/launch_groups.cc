#include "engine/compile/schedule/launch_groups.h"

#include <absl/algorithm/container.h>

#include <algorithm>
#include <iterator>

namespace snug::core {
namespace {

bool Conflict(const Step& a, const Step& b) {
  return absl::c_any_of(a.accesses, [&](const Access& of_a) {
    return absl::c_any_of(b.accesses, [&](const Access& of_b) { return Conflicts(of_a, of_b); });
  });
}

// Says whether no later Step of another stream touches what a Step does: nothing relies on when it runs but its own
// stream, which keeps its sequence.
bool IsPrivate(const std::vector<Step>& steps, const std::vector<int32_t>& stream_of, size_t at) {
  for (size_t later = at + 1; later < steps.size(); ++later) {
    if (stream_of[later] != stream_of[at] && Conflict(steps[at], steps[later])) return false;
  }
  return true;
}

// Says whether one launch can serve both.
bool Alike(const Step& a, const Step& b) { return a.kernel == b.kernel && SameElements(a.types, b.types); }

}  // namespace

bool CanJoin(const KernelRow& kernel, const NodeTypes& types) {
  constexpr int64_t kMostBytes = int64_t{1} << 20;  // a larger first input takes longer to write than a launch
  return kernel.together != nullptr && types.input(0).size_bytes() <= kMostBytes;
}

bool SameElements(const NodeTypes& a, const NodeTypes& b) {
  const auto same_type = [](const ValueType& x, const ValueType& y) { return x.dtype == y.dtype; };
  return absl::c_equal(a.inputs, b.inputs, same_type) && absl::c_equal(a.outputs, b.outputs, same_type);
}

std::vector<LaunchGroup> GroupLaunches(const std::vector<Step>& steps, const Schedule& schedule) {
  std::vector<bool> waits(steps.size()), waited_for(steps.size());
  for (const auto& [a, b] : schedule.waits) waited_for[static_cast<size_t>(a)] = waits[static_cast<size_t>(b)] = true;
  const std::vector<int32_t>& stream_of = schedule.stream_of;

  std::vector<bool> relied_on(steps.size());  // by other streams, if only because they wait for a later Step
  for (size_t i = 0; i < steps.size() && !schedule.waits.empty(); ++i) {
    relied_on[i] = CanJoin(*steps[i].kernel, steps[i].types) && !IsPrivate(steps, stream_of, i);
  }

  std::vector<LaunchGroup> launches;
  constexpr size_t kMostWaiting = 16;  // groups: few, because every Step is compared with all that wait
  std::vector<LaunchGroup> waiting;    // no two Steps in these conflict
  const auto launch_if = [&](const auto& due) {
    const auto end = std::stable_partition(waiting.begin(), waiting.end(),
                                           [&](const LaunchGroup& group) { return !due(group.steps); });
    launches.insert(launches.end(), std::make_move_iterator(end), std::make_move_iterator(waiting.end()));
    waiting.erase(end, waiting.end());
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    launch_if([&](const std::vector<size_t>& group) {
      const bool ends = waited_for[i] && stream_of[group[0]] == stream_of[i];
      return absl::c_any_of(
          group, [&](size_t other) { return (ends && relied_on[other]) || Conflict(steps[other], steps[i]); });
    });
    if (!CanJoin(*steps[i].kernel, steps[i].types) || waited_for[i]) {
      launches.push_back({{i}});
      continue;
    }
    if (waits[i]) launches.push_back({.steps = {i}, .only_waits = true});
    const auto group = absl::c_find_if(waiting, [&](const LaunchGroup& one) {
      const size_t first = one.steps[0];
      return one.steps.size() < static_cast<size_t>(kMostTogether) && stream_of[first] == stream_of[i] &&
             Alike(steps[first], steps[i]);
    });
    if (group == waiting.end()) {
      if (waiting.size() == kMostWaiting) {
        launches.push_back(std::move(waiting[0]));
        waiting.erase(waiting.begin());
      }
      waiting.push_back({{i}});
    } else {
      group->steps.push_back(i);
    }
  }
  launch_if([](const std::vector<size_t>&) { return true; });
  return launches;
}

}  // namespace snug::core
