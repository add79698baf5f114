#include "memory/order/olla/order_program.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/status.h"
#include "memory/order/olla/programs.h"
#include "memory/order/olla/reductions.h"

namespace snug::core::memory {
namespace {

Tasks WithEdges(Tasks tasks, const std::vector<std::pair<int32_t, int32_t>>& edges) {
  tasks.edges.insert(tasks.edges.end(), edges.begin(), edges.end());
  return tasks;
}

// Returns the stage's tasks in the sequence of `order`.
TaskOrder PartOf(const TaskOrder& order, const OllaStage& stage) {
  std::vector<int32_t> local(order.size(), -1);
  for (size_t i = 0; i < stage.origin.size(); ++i) {
    local[static_cast<size_t>(stage.origin[i])] = static_cast<int32_t>(i);
  }
  TaskOrder part;
  for (const int32_t task : order) {
    if (local[static_cast<size_t>(task)] >= 0) part.push_back(local[static_cast<size_t>(task)]);
  }
  return part;
}

}  // namespace

const int64_t OllaOrderProgram::kMost = kMostOllaBinaries;

OllaOrderProgram::OllaOrderProgram(const Tasks& original, const TaskOrder& start, bool early_updates,
                                   const OllaOptions& olla)
    : early_updates_(early_updates), olla_(olla) {
  const std::vector<std::pair<int32_t, int32_t>> early =
      early_updates ? EarlyUpdateEdges(original) : std::vector<std::pair<int32_t, int32_t>>();
  const Tasks constrained = WithEdges(original, early);
  if (olla.merge) merged_ = std::make_unique<MergedTasks>(Merge(constrained));
  const Tasks& tasks = merged_ == nullptr ? constrained : merged_->tasks;
  const std::vector<std::pair<int32_t, int32_t>> idle = IdleTasksFirst(tasks);
  TaskOrder first = merged_ == nullptr ? start : merged_->Collapse(start);
  const Tasks all = WithEdges(tasks, idle);
  if (!CheckOrder(all, first).ok()) first = FirstOrder(all);
  for (OllaStage& part : SplitIntoStages(OllaGraph(tasks, idle), idle, olla.stages)) {
    stages_.emplace_back().part = std::move(part);
  }
  for (Stage& stage : stages_) {  // stages must not move from here on, because graphs point to their tasks
    stage.graph = std::make_unique<OllaGraph>(stage.part.tasks, std::vector<std::pair<int32_t, int32_t>>());
    stage.order = PartOf(first, stage.part);
    stage.peak = PeakOf(stage.part.tasks, stage.order);
    stage.binaries = OllaBinaries(*stage.graph, olla.spans);
  }
}

std::string OllaOrderProgram::Size() const {
  int64_t tasks = 0;
  int64_t binaries = 0;
  int64_t open = 0;
  for (const Stage& stage : stages_) {
    tasks += stage.part.tasks.size();
    binaries += stage.binaries;
    open += stage.binaries > 0 ? 1 : 0;
  }
  return absl::StrCat(tasks, " tasks", merged_ == nullptr ? "" : " after merging", ", ", open,
                      open == 1 ? " stage" : " stages", " to order, ", binaries, " binaries");
}

bool OllaOrderProgram::Empty() const {
  return std::none_of(stages_.begin(), stages_.end(),
                      [](const Stage& stage) { return stage.binaries > 0 && stage.binaries <= kMost; });
}

std::string OllaOrderProgram::LeftOut() const {
  std::string text;
  for (const Stage& stage : stages_) {
    if (stage.binaries <= kMost) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", "a stage of ", stage.part.tasks.size(), " tasks with ",
                    stage.binaries, " binaries, more than the solver is given (", kMost, ")");
  }
  return text;
}

TaskOrder OllaOrderProgram::Whole() const {
  TaskOrder order;
  for (const Stage& stage : stages_) {
    for (const int32_t task : stage.order) order.push_back(stage.part.origin[static_cast<size_t>(task)]);
  }
  return merged_ == nullptr ? order : merged_->Expand(order);
}

absl::StatusOr<int64_t> OllaOrderProgram::Run(int64_t work, int64_t most, const Host& host) {
  // The stage of the highest peak goes first: once it is solved, the others need not go below it.
  std::vector<size_t> sequence(stages_.size());
  std::iota(sequence.begin(), sequence.end(), 0);
  std::stable_sort(sequence.begin(), sequence.end(),
                   [&](size_t a, size_t b) { return stages_[a].peak > stages_[b].peak; });
  // Merging moves tasks to where they cost nothing. That alone may improve the order, so it is announced before any
  // solving.
  if (!announced_) host.found(Whole());
  announced_ = true;
  int64_t spent = 0;
  int64_t enough = 0;  // bounds this program only: it may have edges that orders need not keep to
  const auto bound = [&] { return std::max(enough, host.bound()); };
  for (const size_t i : sequence) {
    Stage& stage = stages_[i];
    if (!stage.open(bound()) || spent >= most) continue;
    const LifetimesGoal goal{.start = stage.order,
                             .enough = bound(),
                             .most = early_updates_ ? stage.peak : std::min(stage.peak, host.peak()),
                             .work = std::min(work, most - spent)};
    SNUG_ASSIGN_OR_RETURN(const LifetimesResult result, SolveLifetimes(
                                                            *stage.graph, goal, olla_,
                                                            [&](const TaskOrder& order) {
                                                              const int64_t peak = PeakOf(stage.part.tasks, order);
                                                              if (peak >= stage.peak) return;
                                                              stage.order = order;
                                                              stage.peak = peak;
                                                              host.found(Whole());
                                                            },
                                                            [&](int64_t stage_bound) {
                                                              enough = std::max(enough, stage_bound);
                                                              if (!early_updates_) host.tighten(stage_bound);
                                                            }));
    spent += std::max<int64_t>(1, result.work);
    stage.solved = result.solved;
  }
  return spent;
}

bool OllaOrderProgram::Finished(int64_t bound) const {
  return std::none_of(stages_.begin(), stages_.end(), [&](const Stage& stage) { return stage.open(bound); });
}

}  // namespace snug::core::memory
