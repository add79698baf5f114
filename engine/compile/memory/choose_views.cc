#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/memory/tasks.h"
#include "engine/compile/memory/views.h"
#include "memory/order/in_place_tasks.h"
#include "memory/order/order_search.h"
#include "memory/problem.h"

namespace snug::core {
namespace {

constexpr size_t kMostTries = 64;
constexpr int64_t kOrderWork = int64_t{1} << 20;

// The cost of a choice of views.
struct ViewCost {
  int64_t peak = 0;
  double area = 0;  // bytes times positions, over all buffers

  friend bool operator<=(const ViewCost& a, const ViewCost& b) {
    return a.peak != b.peak ? a.peak < b.peak : a.area <= b.area;
  }
};

class ViewChooser {
 public:
  ViewChooser(const Graph& graph, const OpRegistry& registry, const std::vector<KernelChoice>& kernels,
              int64_t alignment, bool keep_inputs, absl::Span<const CallerValue> bound)
      : graph_(graph),
        possible_(graph, registry, alignment),
        facts_(FactsOf(graph, registry)),
        kernels_(kernels),
        alignment_(alignment),
        keep_inputs_(keep_inputs),
        bound_(bound) {}

  Views Chosen() const { return {possible_, Copied()}; }

 private:
  // A choice of views, and what it costs in the best order that is found quickly.
  struct Choice {
    std::vector<char> copied;
    ViewCost cost;
  };

  std::vector<char> Copied() const {
    std::vector<char> none = CopiedForCaller(possible_, bound_);
    std::vector<NodeId> optional = possible_.Optional();
    std::erase_if(optional, [&](NodeId id) { return none[Index(id)] != 0; });
    if (optional.empty()) return none;
    // A part that is written over has all bytes of the whole for as long as what is written there is needed. So both
    // are tried, and the simpler one is taken unless the other takes less.
    Choice best = Best(optional, none, /*over_parts=*/false);
    if (possible_.AnyOverParts()) {
      Choice other = Best(optional, none, /*over_parts=*/true);
      if (!(best.cost <= other.cost)) best = std::move(other);
    }
    return std::move(best.copied);
  }

  // Of views that are at most those which `least` leaves. Without `over_parts` no part is written over.
  Choice Best(const std::vector<NodeId>& optional, const std::vector<char>& least, bool over_parts) const {
    std::vector<char> all = possible_.AllCopied(), none = least;
    if (!over_parts) {
      for (const PossibleViews::View& view : possible_.views()) {
        if (!view.over.empty()) none[Index(view.node)] = 1;
      }
    }
    std::vector<char> copied = all;
    ViewCost cost = CostOf(copied);
    // Tries the views one after the other, or several at once where there are very many.
    const size_t at_once = (optional.size() + kMostTries - 1) / kMostTries;
    for (size_t begin = 0; begin < optional.size(); begin += at_once) {
      const size_t end = std::min(begin + at_once, optional.size());
      std::vector<char> fewer = copied;
      for (size_t i = begin; i < end; ++i) fewer[Index(optional[i])] = 0;
      std::vector<char> over = fewer;
      if (over_parts) WriteOver(fewer, over);
      if (over == fewer || !Take(std::move(over), &copied, &cost)) Take(std::move(fewer), &copied, &cost);
    }
    // Some views only pay together, and what is best in the given order need not be so in the best one. So all and none
    // are compared too, in the best order.
    cost = CostInBestOrder(copied);
    for (const std::vector<char>* const other : {&none, &all}) {
      if (copied == *other) continue;
      const ViewCost its = CostInBestOrder(*other);
      if (cost <= its) continue;
      copied = *other;
      cost = its;
    }
    return {std::move(copied), cost};
  }

  // Makes nodes write over the parts of all values that are cut by views.
  void WriteOver(const std::vector<char>& copied, std::vector<char>& over) const {
    for (const PossibleViews::View& view : possible_.views()) {
      const bool may = std::any_of(view.over.begin(), view.over.end(),
                                   [&](const PossibleViews::OverPart& part) { return copied[Index(part.cuts)] == 0; });
      if (may) over[Index(view.node)] = 0;
    }
  }

  StepTasks TasksWith(const std::vector<char>& copied) const {
    return FindTasksUnnamed(graph_, facts_, kernels_, Views(possible_, copied), alignment_, keep_inputs_, bound_);
  }

  ViewCost CostOf(const StepTasks& tasks, const memory::TaskOrder& order) const {
    const memory::Problem problem = memory::LifetimesOf(tasks.tasks, order);
    ViewCost cost{.peak = memory::LowerBound(problem)};
    for (const memory::Buffer& buffer : problem.buffers) {
      cost.area += static_cast<double>(buffer.size_bytes) * (1.0 + buffer.last - buffer.first);
    }
    return cost;
  }

  ViewCost CostOf(const std::vector<char>& copied) const {
    const StepTasks tasks = TasksWith(copied);
    return CostOf(tasks, GivenOrder(graph_, tasks));
  }

  // Returns the lower of the costs in the given order and in the best order that is found quickly.
  ViewCost CostInBestOrder(const std::vector<char>& copied) const {
    const StepTasks tasks = TasksWith(copied);
    const ViewCost given = CostOf(tasks, GivenOrder(graph_, tasks));
    const absl::StatusOr<memory::InPlaceTasks> plain = memory::WithoutInPlace(tasks.tasks);
    SNUG_CHECK_OK(plain.status());
    const absl::StatusOr<memory::Ordering> ordering = memory::OrderBest(plain->tasks, {.work_limit = kOrderWork});
    SNUG_CHECK_OK(ordering.status());
    const ViewCost found = CostOf(tasks, plain->OriginalOrder(ordering->order));
    return given <= found ? given : found;
  }

  // Returns whether the other choice costs no more.
  bool Take(std::vector<char> other, std::vector<char>* copied, ViewCost* cost) const {
    const ViewCost its = CostOf(other);
    if (!(its <= *cost)) return false;
    *cost = its;
    *copied = std::move(other);
    return true;
  }

  static size_t Index(NodeId id) { return static_cast<size_t>(id.index); }

  const Graph& graph_;
  const PossibleViews possible_;
  const NodeFacts facts_;
  const std::vector<KernelChoice>& kernels_;
  const int64_t alignment_;
  const bool keep_inputs_;
  const absl::Span<const CallerValue> bound_;
};

}  // namespace

Views ChooseViews(const Graph& graph, const OpRegistry& registry, const std::vector<KernelChoice>& kernels,
                  int64_t alignment, bool keep_inputs, absl::Span<const CallerValue> bound) {
  return ViewChooser(graph, registry, kernels, alignment, keep_inputs, bound).Chosen();
}

}  // namespace snug::core
