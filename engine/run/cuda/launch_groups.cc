#include "engine/run/cuda/launch_groups.h"

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

// Says whether one launch can serve both: they have the same kernel, for the same types of elements.
bool Alike(const Step& a, const Step& b) {
  const auto same_type = [](const ValueType& x, const ValueType& y) { return x.dtype == y.dtype; };
  return a.kernel == b.kernel && absl::c_equal(a.types.inputs, b.types.inputs, same_type) &&
         absl::c_equal(a.types.outputs, b.types.outputs, same_type);
}

bool CanJoin(const Step& step) {
  constexpr int64_t kMostBytes = int64_t{1} << 20;  // a larger first input takes longer to write than a launch
  return step.kernel->together != nullptr && step.types.input(0).size_bytes() <= kMostBytes;
}

}  // namespace

std::vector<std::vector<size_t>> GroupLaunches(const std::vector<Step>& steps) {
  std::vector<std::vector<size_t>> launches;
  constexpr size_t kMostWaiting = 16;        // groups: few, because every Step is compared with all that wait
  std::vector<std::vector<size_t>> waiting;  // no two Steps in these conflict
  const auto launch_if = [&](const auto& due) {
    const auto end = std::stable_partition(waiting.begin(), waiting.end(),
                                           [&](const std::vector<size_t>& group) { return !due(group); });
    launches.insert(launches.end(), std::make_move_iterator(end), std::make_move_iterator(waiting.end()));
    waiting.erase(end, waiting.end());
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    launch_if([&](const std::vector<size_t>& group) {
      return absl::c_any_of(group, [&](size_t other) { return Conflict(steps[other], steps[i]); });
    });
    if (!CanJoin(steps[i])) {
      launches.push_back({i});
      continue;
    }
    const auto group = absl::c_find_if(waiting, [&](const std::vector<size_t>& one) {
      return one.size() < static_cast<size_t>(kMostTogether) && Alike(steps[one[0]], steps[i]);
    });
    if (group == waiting.end()) {
      if (waiting.size() == kMostWaiting) {
        launches.push_back(std::move(waiting[0]));
        waiting.erase(waiting.begin());
      }
      waiting.push_back({i});
    } else {
      group->push_back(i);
    }
  }
  launch_if([](const std::vector<size_t>&) { return true; });
  return launches;
}

}  // namespace snug::core
