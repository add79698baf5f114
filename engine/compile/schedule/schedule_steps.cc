#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/schedule/stages.h"
#include "memory/partial_order.h"
#include "memory/verifier.h"

namespace snug::core {

absl::Status VerifySchedule(const StepTasks& tasks, const Executable& executable) {
  const memory::TaskPlan& step = executable.memory.step;
  const auto task = [&step](int32_t position) { return step.order[static_cast<size_t>(position)]; };
  memory::StreamSchedule schedule;
  for (const std::vector<int32_t>& stream : executable.schedule.streams) {
    std::vector<int32_t>& ids = schedule.streams.emplace_back();
    for (const int32_t position : stream) ids.push_back(task(position));
  }
  for (const auto& [a, b] : executable.schedule.waits) schedule.waits.emplace_back(task(a), task(b));
  return Annotate(memory::VerifyUnderWaits(tasks.tasks, step.order, schedule, step.placement.plan),
                  absl::StrCat("the schedule on ", executable.schedule.count(), " streams"));
}

absl::Status ScheduleSteps(const StepTasks& tasks, int streams, Executable& executable) {
  if (streams < 1) return absl::InvalidArgumentError(absl::StrCat("streams: expected at least 1, found ", streams));
  std::vector<std::vector<Access>> accesses;
  for (const Step& step : executable.steps) accesses.push_back(step.accesses);
  executable.schedule =
      ScheduleStreams(accesses, AssignStreams(tasks.tasks, executable.memory.step.order, streams), streams);
  return VerifySchedule(tasks, executable);
}

StreamEstimate EstimateStreams(const StepTasks& tasks, const Executable& executable) {
  const memory::TaskOrder& order = executable.memory.step.order;
  std::vector<double> costs;
  std::vector<int32_t> position(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    costs.push_back(tasks.tasks.cost[static_cast<size_t>(order[i])]);
    position[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
  }
  Schedule unlimited = executable.schedule;
  unlimited.waits.clear();
  for (const auto& [a, b] : memory::PrecedenceOf(tasks.tasks)) {
    unlimited.waits.emplace_back(position[static_cast<size_t>(a)], position[static_cast<size_t>(b)]);
  }
  std::sort(unlimited.waits.begin(), unlimited.waits.end(),
            [](const auto& x, const auto& y) { return x.second < y.second; });
  return {.one_stream = std::accumulate(costs.begin(), costs.end(), 0.0),
          .scheduled = EstimateSpan(executable.schedule, costs),
          .unlimited = EstimateSpan(unlimited, costs)};
}

}  // namespace snug::core
