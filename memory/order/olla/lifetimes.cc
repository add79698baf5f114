#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "memory/ilp/scale.h"
#include "memory/ilp/solver.h"
#include "memory/order/olla/programs.h"
#include "memory/order/olla/schedule.h"

namespace snug::core::memory {

int64_t LargestTask(const Tasks& tasks) {
  std::vector<int64_t> needed(tasks.names.size(), 0);
  int64_t resident = 0;
  for (const TaskValue& value : tasks.values) {
    if (value.resident) {
      resident += value.size_bytes;
      continue;
    }
    if (value.producer >= 0) needed[static_cast<size_t>(value.producer)] += value.size_bytes;
    for (const int32_t reader : value.readers) needed[static_cast<size_t>(reader)] += value.size_bytes;
  }
  return resident + (needed.empty() ? 0 : *std::max_element(needed.begin(), needed.end()));
}

int64_t OllaBinaries(const OllaGraph& graph, bool spans) {
  int64_t binaries = 0;
  for (int32_t task = 0; task < graph.size(); ++task) {
    binaries += spans ? graph.latest(task) - graph.earliest(task) : graph.size() - 1;
  }
  return binaries;
}

absl::StatusOr<LifetimesResult> SolveLifetimes(const OllaGraph& graph, const LifetimesGoal& goal,
                                               const OllaOptions& olla,
                                               const std::function<void(const TaskOrder& order)>& found,
                                               const std::function<void(int64_t bound)>& tighten) {
  const Tasks& tasks = graph.tasks();
  int64_t resident = 0;
  std::vector<int64_t> sizes;
  for (const TaskValue& value : tasks.values) {
    if (value.resident) {
      resident += value.size_bytes;
    } else {
      sizes.push_back(value.size_bytes);
    }
  }
  const IlpScale scale(sizes);
  const int64_t least = std::max(LargestTask(tasks), goal.enough);
  const int64_t most = std::max(least, goal.most);

  IlpModel model;
  const int32_t peak =
      model.AddVariable(scale.FromBytes(least - resident), std::max(scale.FromBytes(most - resident), 0.0), false, 1);
  const OllaSchedule schedule(graph, olla.spans, &model);
  for (int32_t position = 0; position < tasks.size(); ++position) {  // (13)
    Affine live;
    for (size_t value = 0; value < tasks.values.size(); ++value) {
      const TaskValue& v = tasks.values[value];
      if (v.resident || v.size_bytes == 0) continue;
      live.Add(schedule.Live(value, position), scale.FromBytes(v.size_bytes));
    }
    live.terms.push_back({peak, -1});
    model.AddConstraint(live.terms, -IlpModel::kInfinity, -live.constant);
  }

  IlpOptions options{.work = goal.work, .step = scale.step()};
  const int64_t start_peak = PeakOf(tasks, goal.start);
  if (olla.warm_start && start_peak <= most) {
    options.start.assign(static_cast<size_t>(model.variables()), 0);
    schedule.Encode(goal.start, &options.start);
    options.start[static_cast<size_t>(peak)] = scale.FromBytes(start_peak - resident);
  }
  const auto tighten_to = [&](double bound) { tighten(std::max(least, resident + scale.BoundToBytes(bound))); };
  options.on_progress = [&](const IlpProgress& now) {
    if (!now.values.empty()) found(schedule.Decode(now.values));
    tighten_to(now.bound);
  };
  SNUG_ASSIGN_OR_RETURN(const IlpResult result, SolveIlp(model, options));
  if (!result.values.empty()) found(schedule.Decode(result.values));
  if (result.status != IlpStatus::kInfeasible) tighten_to(result.bound);
  return LifetimesResult{.solved = result.status != IlpStatus::kStopped, .work = result.work};
}

}  // namespace snug::core::memory
