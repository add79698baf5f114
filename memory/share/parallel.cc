#include "memory/share/parallel.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/status.h"
#include "memory/share/blocks.h"
#include "memory/share/pool.h"

namespace snug::core::memory {
namespace {

constexpr absl::string_view kNames[] = {"implicit", "ancestors", "ancestors-only", "colors", "colors-only"};

struct SharingRule {
  bool anything = false;  // takes any block, whatever it costs in edges
  bool colors = false;
  bool fall_back = false;  // takes an implicit edge where no block needs none
};

absl::StatusOr<SharingRule> RuleNamed(absl::string_view name) {
  if (name == "implicit") return SharingRule{.anything = true};
  if (name == "ancestors") return SharingRule{.fall_back = true};
  if (name == "ancestors-only") return SharingRule{};
  if (name == "colors") return SharingRule{.colors = true, .fall_back = true};
  if (name == "colors-only") return SharingRule{.colors = true};
  return absl::InvalidArgumentError(
      absl::StrCat("unknown parallel sharing \"", name, "\"; there are: ", absl::StrJoin(kNames, ", ")));
}

double CostOf(const Tasks& tasks, int32_t task) {
  return tasks.cost.empty() ? 1 : tasks.cost[static_cast<size_t>(task)];
}

std::vector<std::vector<int32_t>> Predecessors(const Tasks& tasks, const std::vector<Edge>& edges) {
  std::vector<std::vector<int32_t>> before(tasks.names.size());
  for (const auto& [a, b] : edges) before[static_cast<size_t>(b)].push_back(a);
  return before;
}

// Returns the longest path, from its first task to its last. `order` must be legal for the edges.
std::vector<int32_t> LongestPath(const TaskOrder& order, const std::vector<std::vector<int32_t>>& before,
                                 const std::vector<double>& cost) {
  std::vector<double> reach(order.size(), 0);
  std::vector<int32_t> from(order.size(), -1);
  int32_t last = -1;
  for (const int32_t id : order) {
    const auto task = static_cast<size_t>(id);
    for (const int32_t b : before[task]) {
      if (from[task] >= 0 && reach[static_cast<size_t>(b)] <= reach[static_cast<size_t>(from[task])]) continue;
      from[task] = b;
    }
    reach[task] = cost[task] + (from[task] < 0 ? 0 : reach[static_cast<size_t>(from[task])]);
    if (last < 0 || reach[task] > reach[static_cast<size_t>(last)]) last = id;
  }
  std::vector<int32_t> path;
  for (; last >= 0; last = from[static_cast<size_t>(last)]) path.push_back(last);
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<double> Costs(const Tasks& tasks) {
  std::vector<double> costs;
  for (int32_t t = 0; t < tasks.size(); ++t) costs.push_back(CostOf(tasks, t));
  return costs;
}

double CriticalPath(const Tasks& tasks, const TaskOrder& order, const std::vector<Edge>& edges) {
  double total = 0;
  for (const int32_t task : LongestPath(order, Predecessors(tasks, edges), Costs(tasks))) total += CostOf(tasks, task);
  return total;
}

class Simulation {
 public:
  Simulation(const Tasks& tasks, const TaskOrder& order, const PartialOrder& partial, const SharingRule& rule,
             const PlannerOptions& options)
      : tasks_(tasks),
        partial_(partial),
        rule_(rule),
        match_range_(options.match_range),
        problem_(LifetimesOf(tasks, order)),
        block_of_(tasks.values.size(), -1) {
    if (rule.colors) color_ = ColorLongestPaths(tasks, order, options.colors);
    for (const InPlace& pair : problem_.in_place) {
      may_be_over_[static_cast<size_t>(pair.output)].push_back(static_cast<size_t>(pair.input));
    }
  }

  void Run() {
    const Timeline timeline(problem_);
    size_t done = 0;
    for (const int32_t id : timeline.begins) {
      const auto value = static_cast<size_t>(id);
      const Buffer& buffer = problem_.buffers[value];
      for (; done < timeline.ends.size(); ++done) {
        const auto ended = static_cast<size_t>(timeline.ends[done]);
        if (problem_.buffers[ended].last >= buffer.first) break;
        const int32_t block = block_of_[ended];
        if (block >= 0 && holds_[static_cast<size_t>(block)] == ended) pool_.GiveBack(block);
      }
      if (buffer.size_bytes > 0) GiveBlock(value);
    }
  }

  Plan plan() const { return LayBlocksSideBySide(problem_, block_of_); }
  const Problem& problem() const { return problem_; }
  std::vector<Edge> implicit_edges() const {
    std::vector<Edge> edges = edges_;
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    return edges;
  }

 private:
  void GiveBlock(size_t value) {
    int32_t block = InPlaceBlock(value);
    const int64_t bytes = problem_.buffers[value].size_bytes;
    if (block < 0 && !rule_.anything) {
      block =
          pool_.Take(bytes, match_range_, [&](int32_t b) { return IsApart(holds_[static_cast<size_t>(b)], value); });
    }
    if (block < 0 && (rule_.anything || rule_.fall_back)) {
      block = pool_.Take(bytes, match_range_, [&](int32_t) { return HasWriter(value); });
      if (block >= 0) AddEdges(holds_[static_cast<size_t>(block)], value);
    }
    if (block < 0) {
      block = pool_.Open(bytes);
      holds_.push_back(value);
    }
    block_of_[value] = block;
    holds_[static_cast<size_t>(block)] = value;
  }

  // A value that is there before the first task has no writer that could wait.
  bool HasWriter(size_t value) const { return tasks_.values[value].producer >= 0 && !tasks_.values[value].resident; }

  // Returns the block of an input that this value may be written over because its other readers are done by then; -1:
  // none.
  int32_t InPlaceBlock(size_t value) const {
    const auto inputs = may_be_over_.find(value);
    if (inputs == may_be_over_.end()) return -1;
    for (const size_t input : inputs->second) {
      const int32_t block = block_of_[input];
      if (block < 0 || holds_[static_cast<size_t>(block)] != input) continue;  // another output was written there first
      if (problem_.buffers[input].size_bytes != problem_.buffers[value].size_bytes) continue;
      if (UsersAreAncestors(input, value, tasks_.values[value].producer)) return block;
    }
    return -1;
  }

  bool UsersAreAncestors(size_t old, size_t value, int32_t except = -1) const {
    const int32_t writer = tasks_.values[value].producer;
    const auto done = [&](int32_t user) { return user == except || partial_.Before(user, writer); };
    const TaskValue& before = tasks_.values[old];
    return std::all_of(before.readers.begin(), before.readers.end(), done) &&
           (before.producer < 0 || done(before.producer));
  }

  bool IsApart(size_t old, size_t value) const {
    if (!HasWriter(value) || !UsersAreAncestors(old, value)) return false;
    if (!rule_.colors) return true;
    const int32_t producer = tasks_.values[old].producer;
    const int32_t color = color_[static_cast<size_t>(tasks_.values[value].producer)];
    return producer >= 0 && color >= 0 && color_[static_cast<size_t>(producer)] == color;
  }

  void AddEdges(size_t old, size_t value) {
    const int32_t writer = tasks_.values[value].producer;
    const auto add = [&](int32_t user) {
      if (user >= 0 && !partial_.Before(user, writer)) edges_.emplace_back(user, writer);
    };
    for (const int32_t reader : tasks_.values[old].readers) add(reader);
    add(tasks_.values[old].producer);
  }

  const Tasks& tasks_;
  const PartialOrder& partial_;
  const SharingRule rule_;
  const int match_range_;
  const Problem problem_;
  SharedBlocks pool_;
  std::vector<size_t> holds_;      // by block: the value that it held last
  std::vector<int32_t> block_of_;  // indexed by value
  std::vector<int32_t> color_;     // indexed by task
  std::map<size_t, std::vector<size_t>> may_be_over_;
  std::vector<Edge> edges_;
};

}  // namespace

absl::Span<const absl::string_view> ParallelSharingNames() { return kNames; }

std::vector<int32_t> ColorLongestPaths(const Tasks& tasks, const TaskOrder& order, int paths) {
  const std::vector<std::vector<int32_t>> before = Predecessors(tasks, PrecedenceOf(tasks));
  std::vector<double> cost = Costs(tasks);  // set to 0 for tasks that have a colour
  std::vector<int32_t> color(tasks.names.size(), -1);
  for (int32_t c = 0; c < paths; ++c) {
    double found = 0;
    for (const int32_t task : LongestPath(order, before, cost)) {
      if (color[static_cast<size_t>(task)] >= 0) continue;
      color[static_cast<size_t>(task)] = c;
      found += cost[static_cast<size_t>(task)];
      cost[static_cast<size_t>(task)] = 0;
    }
    if (found == 0) break;
  }
  return color;
}

absl::StatusOr<ParallelSharing> ShareInParallel(const Tasks& tasks, const TaskOrder& order, absl::string_view name,
                                                const PlannerOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const SharingRule rule, RuleNamed(name));
  SNUG_RETURN_IF_ERROR(CheckTasks(tasks));
  SNUG_RETURN_IF_ERROR(CheckOrder(tasks, order));
  std::vector<Edge> edges = PrecedenceOf(tasks);
  SNUG_ASSIGN_OR_RETURN(const PartialOrder partial, PartialOrder::Create(tasks.size(), edges));
  Simulation simulation(tasks, order, partial, rule, options);
  simulation.Run();
  ParallelSharing sharing;
  sharing.placement = WithBound(simulation.problem(), simulation.plan());
  sharing.implicit_edges = simulation.implicit_edges();
  sharing.critical_path_alone = CriticalPath(tasks, order, edges);
  edges.insert(edges.end(), sharing.implicit_edges.begin(), sharing.implicit_edges.end());
  sharing.critical_path = CriticalPath(tasks, order, edges);
  return sharing;
}

}  // namespace snug::core::memory
