#include "memory/order/olla_lifetimes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "memory/ilp/scale.h"
#include "memory/ilp/solver.h"
#include "memory/order/olla_schedule.h"

namespace snug::memory {

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

absl::StatusOr<LifetimesResult> SolveLifetimes(const OllaGraph& graph, const TaskOrder& start, int64_t enough,
                                               const PlannerOptions& options, IlpOptions limits,
                                               const std::function<void(int64_t peak, int64_t bound)>& progress,
                                               IlpSearch* search) {
  const Tasks& tasks = graph.tasks();
  LifetimesResult best{
      .order = start, .peak = PeakOf(tasks, start), .lower_bound = std::max(LargestTask(tasks), enough)};
  if (OllaBinaries(graph, options.olla.spans) > kMostOllaBinaries) return best;

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

  IlpModel model;
  const int32_t peak = model.AddVariable(scale.FromBytes(best.lower_bound - resident),
                                         std::max(scale.FromBytes(best.peak - resident), 0.0), false, 1);
  const OllaSchedule schedule(graph, options.olla.spans, &model);
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

  limits.solver = options.olla.solver;
  limits.step = scale.step();
  if (options.olla.warm_start) {
    limits.start.assign(static_cast<size_t>(model.variables()), 0);
    schedule.Encode(start, &limits.start);
    limits.start[static_cast<size_t>(peak)] = scale.FromBytes(best.peak - resident);
  }
  limits.on_progress = [&](const IlpProgress& now) {
    const int64_t bound = std::max(best.lower_bound, resident + scale.BoundToBytes(now.bound));
    const bool found = now.objective < IlpModel::kInfinity;
    progress(found ? std::min(best.peak, resident + scale.ToBytes(now.objective)) : best.peak, bound);
  };
  SNUG_ASSIGN_OR_RETURN(const IlpResult result, SolveIlp(model, limits));
  search->Spend(result);
  best.lower_bound = std::max(best.lower_bound, resident + scale.BoundToBytes(result.bound));
  if (result.values.empty()) return best;
  TaskOrder order = schedule.Decode(result.values);
  SNUG_RETURN_IF_ERROR(CheckOrder(tasks, order));
  const int64_t found = PeakOf(tasks, order);
  // Without a warm start the solver's order is taken at the same peak, too: it is what was asked for.
  if (found < best.peak || (found == best.peak && !options.olla.warm_start)) {
    best.order = std::move(order);
    best.peak = found;
  }
  return best;
}

}  // namespace snug::memory
