#include <algorithm>

#include "memory/order/olla/reductions.h"

namespace snug::core::memory {
namespace {

// Returns each task's stage. A new stage begins at each position that lies inside no task's span.
std::vector<int32_t> StageOfTasks(const OllaGraph& graph, bool cut) {
  const auto n = static_cast<size_t>(graph.size());
  std::vector<int32_t> stage_of(n, 0);
  if (!cut) return stage_of;
  std::vector<int32_t> crossing(n + 1, 0);  // how many spans cross the border before a position
  for (int32_t task = 0; task < graph.size(); ++task) {
    ++crossing[static_cast<size_t>(graph.earliest(task)) + 1];
    --crossing[static_cast<size_t>(graph.latest(task)) + 1];
  }
  std::vector<int32_t> stage_at(n, 0);  // indexed by position
  int32_t across = crossing[0];
  for (size_t position = 1; position < n; ++position) {
    across += crossing[position];
    stage_at[position] = stage_at[position - 1] + (across == 0 ? 1 : 0);
  }
  for (int32_t task = 0; task < graph.size(); ++task) {
    stage_of[static_cast<size_t>(task)] = stage_at[static_cast<size_t>(graph.earliest(task))];
  }
  return stage_of;
}

}  // namespace

std::vector<OllaStage> SplitIntoStages(const OllaGraph& graph, const std::vector<std::pair<int32_t, int32_t>>& extra,
                                       bool cut) {
  const Tasks& tasks = graph.tasks();
  const std::vector<int32_t> stage_of = StageOfTasks(graph, cut);
  const int32_t count = stage_of.empty() ? 0 : *std::max_element(stage_of.begin(), stage_of.end()) + 1;
  std::vector<OllaStage> stages(static_cast<size_t>(count));
  std::vector<int32_t> local(stage_of.size());
  for (size_t task = 0; task < stage_of.size(); ++task) {
    OllaStage& stage = stages[static_cast<size_t>(stage_of[task])];
    local[task] = stage.tasks.size();
    stage.tasks.names.push_back(tasks.names[task]);
    stage.origin.push_back(static_cast<int32_t>(task));
  }
  const auto add_edge = [&](int32_t before, int32_t after) {
    const int32_t stage = stage_of[static_cast<size_t>(before)];
    if (stage != stage_of[static_cast<size_t>(after)]) return;
    stages[static_cast<size_t>(stage)].tasks.edges.emplace_back(local[static_cast<size_t>(before)],
                                                                local[static_cast<size_t>(after)]);
  };
  for (const auto& [before, after] : tasks.edges) add_edge(before, after);
  for (const auto& [before, after] : extra) add_edge(before, after);

  for (const TaskValue& value : tasks.values) {
    // A value is in every stage from the one that writes it to the last one that reads it.
    int32_t first = value.producer < 0 || value.resident ? 0 : stage_of[static_cast<size_t>(value.producer)];
    int32_t last = value.fetched || value.resident ? count - 1 : first;
    for (const int32_t reader : value.readers) last = std::max(last, stage_of[static_cast<size_t>(reader)]);
    for (int32_t stage = first; stage <= last; ++stage) {
      TaskValue part{.name = value.name, .size_bytes = value.size_bytes, .alignment = value.alignment};
      if (stage == first && value.producer >= 0 && !value.resident)
        part.producer = local[static_cast<size_t>(value.producer)];
      part.fetched = stage < last || value.fetched;
      part.resident = value.resident || (part.fetched && part.producer < 0);
      for (const int32_t reader : value.readers) {
        if (stage_of[static_cast<size_t>(reader)] == stage) part.readers.push_back(local[static_cast<size_t>(reader)]);
      }
      stages[static_cast<size_t>(stage)].tasks.values.push_back(std::move(part));
    }
  }
  return stages;
}

}  // namespace snug::core::memory
