#include <absl/strings/str_cat.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "memory/place/conflict_graph.h"
#include "memory/place/placers.h"
#include "memory/share/nnc.h"

namespace snug::core::memory {
namespace {

// Places all items side by side.
std::vector<int64_t> SideBySide(const ConflictGraph& graph) {
  std::vector<int64_t> offsets;
  int64_t end = 0;
  for (const ConflictGraph::Item& item : graph.items) {
    offsets.push_back(AlignUp(end, item.alignment));
    end = offsets.back() + item.size_bytes;
  }
  return offsets;
}

absl::StatusOr<std::vector<int64_t>> ByNnc(const PartialProblem& problem, const PartialItems& items, NncRule rule) {
  SNUG_ASSIGN_OR_RETURN(const Plan plan, PlaceNncPartial(problem, rule));
  std::vector<int64_t> offsets(items.graph.items.size());
  for (size_t i = 0; i < items.item_of.size(); ++i) {
    if (items.item_of[i] >= 0) offsets[static_cast<size_t>(items.item_of[i])] = plan.offsets[i];
  }
  return offsets;
}

int64_t TotalOf(const ConflictGraph& graph, const std::vector<int64_t>& offsets) {
  int64_t total = 0;
  for (size_t i = 0; i < offsets.size(); ++i) total = std::max(total, offsets[i] + graph.items[i].size_bytes);
  return total;
}

Placement Fixed(const ConflictGraph& graph, std::vector<int64_t> offsets, const PlannerOptions& options) {
  Placement placement{.report = FindCliques(graph, options)};
  placement.plan.arena_bytes = TotalOf(graph, offsets);
  placement.plan.offsets = std::move(offsets);
  placement.report.proven = placement.plan.arena_bytes == placement.report.lower_bound;
  return placement;
}

absl::StatusOr<Placement> PlaceItems(const PartialProblem& problem, const PartialItems& items,
                                     absl::string_view strategy, const PlannerOptions& options) {
  if (strategy == "none") return Fixed(items.graph, SideBySide(items.graph), options);
  if (strategy == "offset") return PlaceConflicts(items.graph, {}, options);
  if (strategy == "nnc" || strategy == "nnc-seed") {
    const NncRule rule = strategy == "nnc" ? NncRule::kLater : NncRule::kSeed;
    SNUG_ASSIGN_OR_RETURN(std::vector<int64_t> offsets, ByNnc(problem, items, rule));
    return Fixed(items.graph, std::move(offsets), options);
  }
  if (strategy == "best") {
    SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> later, ByNnc(problem, items, NncRule::kLater));
    return PlaceConflicts(items.graph, later, options);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "strategy \"", strategy,
      "\" needs the tasks in one sequence; for a partial order there are: none, nnc, nnc-seed, offset, best"));
}

}  // namespace

absl::StatusOr<Placement> PlacePartial(const PartialProblem& problem, absl::string_view strategy,
                                       const PlannerOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const PartialProblem resolved = WithoutViews(problem);
  SNUG_ASSIGN_OR_RETURN(const PartialItems items, ItemsOf(resolved));
  SNUG_ASSIGN_OR_RETURN(Placement placement, PlaceItems(resolved, items, strategy, options));
  std::vector<int64_t> offsets(problem.buffers.size(), 0);
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (items.item_of[i] >= 0) offsets[i] = placement.plan.offsets[static_cast<size_t>(items.item_of[i])];
  }
  placement.plan.offsets = std::move(offsets);
  PlaceViews(problem, placement.plan);
  placement.report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return placement;
}

}  // namespace snug::core::memory
