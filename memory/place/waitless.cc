#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "memory/partial_problem.h"
#include "memory/place/placers.h"

namespace snug::core::memory {
namespace {

size_t At(int32_t index) { return static_cast<size_t>(index); }

// Finds the values that are written over others. An input's bytes become the output's where every other reader of the
// input comes before the output's writer.
std::vector<int32_t> Roots(const Tasks& tasks, const PartialOrder& order) {
  std::vector<int32_t> root(tasks.values.size());
  for (size_t v = 0; v < root.size(); ++v) root[v] = static_cast<int32_t>(v);
  std::vector<char> covered(tasks.values.size(), 0);  // an output lies over it already
  for (const TaskInPlace& pair : tasks.in_place) {
    const TaskValue& input = tasks.values[At(pair.input)];
    const TaskValue& output = tasks.values[At(pair.output)];
    if (root[At(pair.output)] != pair.output || covered[At(pair.input)] || input.resident || input.fetched) continue;
    if (output.size_bytes != input.size_bytes) continue;
    const bool last = std::all_of(input.readers.begin(), input.readers.end(), [&](int32_t reader) {
      return reader == output.producer || order.Before(reader, output.producer);
    });
    if (!last) continue;
    root[At(pair.output)] = pair.input;
    covered[At(pair.input)] = 1;
  }
  for (size_t v = 0; v < root.size(); ++v) {
    while (root[At(root[v])] != root[v]) root[v] = root[At(root[v])];
  }
  return root;
}

class WaitlessProblem {
 public:
  static absl::StatusOr<WaitlessProblem> Create(const Tasks& tasks, const std::vector<std::vector<int32_t>>& streams) {
    std::vector<Edge> edges = PrecedenceOf(tasks);
    for (const std::vector<int32_t>& stream : streams) {
      for (size_t i = 1; i < stream.size(); ++i) edges.emplace_back(stream[i - 1], stream[i]);
    }
    SNUG_ASSIGN_OR_RETURN(const PartialOrder order, PartialOrder::Create(tasks.size(), edges));
    WaitlessProblem made;
    made.roots_ = Roots(tasks, order);
    made.Fill(tasks, FirstOf(streams), std::move(edges));
    return made;
  }

  const PartialProblem& problem() const { return problem_; }

  std::vector<int64_t> OffsetsOf(const Plan& plan) const {
    std::vector<int64_t> offsets;
    for (const int32_t root : roots_) offsets.push_back(plan.offsets[At(buffer_of_[At(root)])]);
    return offsets;
  }

 private:
  static std::vector<int32_t> FirstOf(const std::vector<std::vector<int32_t>>& streams) {
    std::vector<int32_t> first;
    for (const std::vector<int32_t>& stream : streams) {
      if (!stream.empty()) first.push_back(stream.front());
    }
    return first;
  }

  void Fill(const Tasks& tasks, const std::vector<int32_t>& first, std::vector<Edge> edges) {
    // Feeding and fetching are two more tasks, before and after all others.
    const int32_t feed = tasks.size(), fetch = tasks.size() + 1;
    for (int32_t t = 0; t < tasks.size(); ++t) {
      edges.emplace_back(feed, t);
      edges.emplace_back(t, fetch);
    }
    problem_.tasks = tasks.size() + 2;
    problem_.edges = std::move(edges);
    buffer_of_.assign(tasks.values.size(), -1);
    for (size_t v = 0; v < tasks.values.size(); ++v) {  // only roots get buffers
      if (At(roots_[v]) != v) continue;
      const TaskValue& value = tasks.values[v];
      buffer_of_[v] = static_cast<int32_t>(problem_.buffers.size());
      problem_.buffers.push_back({.name = value.name,
                                  .size_bytes = value.size_bytes,
                                  .alignment = value.alignment,
                                  .heads = {value.resident || value.producer < 0 ? feed : value.producer}});
    }
    for (size_t v = 0; v < tasks.values.size(); ++v) {
      const TaskValue& value = tasks.values[v];
      std::vector<int32_t>& tails = problem_.buffers[At(buffer_of_[At(roots_[v])])].tails;
      tails.insert(tails.end(), value.readers.begin(), value.readers.end());
      if (value.producer >= 0) tails.push_back(value.producer);
      if (value.resident || value.fetched) tails.push_back(fetch);
      if (tails.empty()) {  // nobody reads it: it lives while the first task runs (LifetimesOf), whichever that is
        tails = first;
        tails.push_back(feed);
      }
    }
  }

  PartialProblem problem_;
  std::vector<int32_t> roots_;      // by value: the value on whose bytes it lies
  std::vector<int32_t> buffer_of_;  // by value; -1 for values that are no roots
};

}  // namespace

absl::StatusOr<Placement> PlaceWaitless(const Tasks& tasks, const std::vector<std::vector<int32_t>>& streams,
                                        const PlannerOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const WaitlessProblem waitless, WaitlessProblem::Create(tasks, streams));
  SNUG_ASSIGN_OR_RETURN(Placement placement, PlacePartial(waitless.problem(), "best", options));
  placement.plan.offsets = waitless.OffsetsOf(placement.plan);
  return placement;
}

}  // namespace snug::core::memory
