#include "memory/order/olla/schedule.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace snug::core::memory {
namespace {

double ValueOf(const Affine& affine, const std::vector<double>& values) {
  double sum = affine.constant;
  for (const LinearTerm& term : affine.terms) sum += term.factor * values[static_cast<size_t>(term.variable)];
  return sum;
}

}  // namespace

void Affine::Add(const Affine& other, double factor) {
  constant += factor * other.constant;
  for (const LinearTerm& term : other.terms) terms.push_back({term.variable, factor * term.factor});
}

OllaSchedule::OllaSchedule(const OllaGraph& graph, bool spans, IlpModel* model)
    : graph_(graph), size_(graph.size()), model_(model) {
  AddPositions(spans);
  AddPrecedence();
  const size_t values = graph.tasks().values.size();
  live_.reserve(values * static_cast<size_t>(size_));
  for (size_t value = 0; value < values; ++value) {
    for (int32_t position = 0; position < size_; ++position) live_.push_back(MakeLive(value, position));
  }
}

Affine OllaSchedule::Done(int32_t task, int32_t position) const {
  const auto t = static_cast<size_t>(task);
  if (position < first_[t]) return {};
  if (position >= last_[t]) return {.terms = {}, .constant = 1};
  return {.terms = {{done_[t] + position - first_[t], 1}}};
}

void OllaSchedule::AddPositions(bool spans) {
  for (int32_t task = 0; task < size_; ++task) {
    first_.push_back(spans ? graph_.earliest(task) : 0);
    last_.push_back(spans ? graph_.latest(task) : size_ - 1);
    done_.push_back(model_->variables());
    for (int32_t position = first_.back(); position < last_.back(); ++position) {
      const int32_t variable = model_->AddBinary();
      if (position > first_.back()) model_->AddConstraint({{{variable, 1}, {variable - 1, -1}}}, 0, 1);
    }
  }
  for (int32_t position = 0; position + 1 < size_; ++position) {
    Affine count;
    for (int32_t task = 0; task < size_; ++task) count.Add(Done(task, position), 1);
    const double others = position + 1 - count.constant;
    if (!count.IsConstant()) model_->AddConstraint(count.terms, others, others);
  }
}

void OllaSchedule::AddPrecedence() {
  for (int32_t task = 0; task < size_; ++task) {
    for (const int32_t before : graph_.before(task)) {
      for (int32_t position = 0; position < size_; ++position) {
        Affine gap = Done(before, position - 1);
        gap.Add(Done(task, position), -1);
        // Constants are in order already, also where a task has certainly run or has certainly not.
        if (gap.IsConstant() || Done(before, position - 1).constant == 1) continue;
        if (Done(task, position).IsConstant() && Done(task, position).constant == 0) continue;
        model_->AddConstraint(gap.terms, -gap.constant, IlpModel::kInfinity);
      }
    }
  }
}

Affine OllaSchedule::MakeLive(size_t value, int32_t position) {
  const TaskValue& v = graph_.tasks().values[value];
  const auto always = [] { return Affine{.terms = {}, .constant = 1}; };
  if (v.resident) return always();
  const Affine written = v.producer < 0 ? always() : Done(v.producer, position);
  std::vector<Affine> at_least;
  if (v.fetched) {
    at_least.push_back(written);
  } else if (v.readers.empty() && v.producer >= 0) {
    at_least.push_back(written);
    at_least.back().Add(Done(v.producer, position - 1), -1);
  }
  for (const int32_t reader : graph_.last_readers(value)) {
    if (v.fetched) break;
    at_least.push_back(written);
    at_least.back().Add(Done(reader, position - 1), -1);
  }
  if (v.readers.empty() && v.producer < 0 && !v.fetched && position == 0) return always();
  std::vector<Affine> open;
  for (Affine& affine : at_least) {
    if (!affine.IsConstant()) {
      open.push_back(std::move(affine));
    } else if (affine.constant >= 1) {
      return always();
    }
  }
  if (open.empty()) return Affine();
  if (open.size() == 1)
    return open.front();  // a reader never runs before the writer, so the expression is already 0
                          // or 1
  const int32_t variable = model_->AddVariable(0, 1, false);
  for (const Affine& affine : open) {
    Affine gap = affine;
    gap.terms.push_back({variable, -1});
    model_->AddConstraint(gap.terms, -IlpModel::kInfinity, -gap.constant);
  }
  live_variables_.emplace_back(variable, std::move(open));
  return {.terms = {{variable, 1}}};
}

double OllaSchedule::PositionOf(size_t task, absl::Span<const double> values) const {
  const absl::Span<const double> done =
      values.subspan(static_cast<size_t>(done_[task]), static_cast<size_t>(last_[task] - first_[task]));
  // done never falls, so where values are unknown the step lies between the last 0 and the first 1 that are known.
  size_t zeros = 0;
  size_t ones = done.size();
  for (size_t i = 0; i < done.size(); ++i) {
    if (done[i] < 0.5) zeros = i + 1;
    if (done[i] >= 0.5) ones = std::min(ones, i);
  }
  return static_cast<double>(first_[task]) + static_cast<double>(zeros + std::max(zeros, ones)) / 2;
}

TaskOrder OllaSchedule::Decode(absl::Span<const double> values) const {
  // Takes of the tasks that can run always the one of the lowest position.
  using PositionAndTask = std::pair<double, int32_t>;
  std::priority_queue<PositionAndTask, std::vector<PositionAndTask>, std::greater<>> ready;
  std::vector<size_t> waiting_for(static_cast<size_t>(size_));
  std::vector<std::vector<int32_t>> followers(static_cast<size_t>(size_));
  const auto add = [&](int32_t task) { ready.emplace(PositionOf(static_cast<size_t>(task), values), task); };
  for (int32_t task = 0; task < size_; ++task) {
    waiting_for[static_cast<size_t>(task)] = graph_.before(task).size();
    for (const int32_t before : graph_.before(task)) followers[static_cast<size_t>(before)].push_back(task);
    if (graph_.before(task).empty()) add(task);
  }
  TaskOrder order;
  while (!ready.empty()) {
    order.push_back(ready.top().second);
    ready.pop();
    for (const int32_t follower : followers[static_cast<size_t>(order.back())]) {
      if (--waiting_for[static_cast<size_t>(follower)] == 0) add(follower);
    }
  }
  return order;
}

void OllaSchedule::Encode(const TaskOrder& order, std::vector<double>* values) const {
  for (size_t at = 0; at < order.size(); ++at) {
    const auto task = static_cast<size_t>(order[at]);
    for (int32_t i = 0; i < last_[task] - first_[task]; ++i) {
      (*values)[static_cast<size_t>(done_[task] + i)] = first_[task] + i >= static_cast<int32_t>(at) ? 1 : 0;
    }
  }
  for (const auto& [variable, expressions] : live_variables_) {
    double live = 0;
    for (const Affine& affine : expressions) live = std::max(live, ValueOf(affine, *values));
    (*values)[static_cast<size_t>(variable)] = live;
  }
}

}  // namespace snug::core::memory
