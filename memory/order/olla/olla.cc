#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "memory/ilp/anytime.h"
#include "memory/ilp/budget.h"
#include "memory/ilp/solver.h"
#include "memory/order/olla/graph.h"
#include "memory/order/olla/orders.h"
#include "memory/order/olla/programs.h"
#include "memory/order/order_search.h"

namespace snug::core::memory {
namespace {

absl::Status SearchOrder(const Tasks& tasks, const Finding& first, const PlannerOptions& options,
                         const Anytime::Emit& emit) {
  IlpBudget budget(options);
  int64_t peak = first.total;
  int64_t bound = first.bound;
  TaskOrder best = first.order;
  const OllaOrderProgram::Host host{.found =
                                        [&](const TaskOrder& order) {
                                          const int64_t found = PeakOf(tasks, order);
                                          if (found >= peak) return;
                                          peak = found;
                                          best = order;
                                          emit({.total = peak, .order = order, .work = budget.spent()});
                                        },
                                    .tighten =
                                        [&](int64_t found) {
                                          if (found <= bound) return;
                                          bound = found;
                                          emit({.peak_bound = bound, .bound = bound, .work = budget.spent()});
                                        },
                                    .bound = [&] { return bound; },
                                    .peak = [&] { return peak; }};
  if (options.olla.fast_start) {
    SNUG_ASSIGN_OR_RETURN(const Ordering fast, OrderBest(tasks, {.threads = options.threads}));
    host.found(fast.order);
    host.tighten(fast.report.lower_bound);
  }
  const auto done = [&] { return peak <= std::max(bound, options.capacity); };
  OllaOrders orders(tasks, best, options.olla, [&](int32_t program, const std::string& how_far) {
    emit({.work = budget.spent(), .line = program, .note = how_far});
  });
  for (int round = 0; !done() && (round == 0 || !orders.Finished(bound)) && budget.left() > 0; ++round) {
    SNUG_RETURN_IF_ERROR(orders.Run(round, host, &budget));
  }
  emit({.work = budget.spent()});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Ordering> OrderOlla(const Tasks& tasks, const PlannerOptions& options) {
  Anytime anytime(options);
  SNUG_RETURN_IF_ERROR(CheckIlpSolver());
  SNUG_RETURN_IF_ERROR(CheckTasks(tasks));
  Finding first{.order = options.olla.start.empty() ? FirstOrder(tasks) : options.olla.start};
  SNUG_RETURN_IF_ERROR(Annotate(CheckOrder(tasks, first.order), "the order to start from"));
  first.total = PeakOf(tasks, first.order);
  first.bound = first.peak_bound = LargestTask(tasks);
  anytime.Take(first);
  const PlannerOptions within = Anytime::Within(options);
  SNUG_RETURN_IF_ERROR(anytime.Run([&](const Anytime::Emit& emit) { return SearchOrder(tasks, first, within, emit); }));
  return Ordering{.order = anytime.best().order, .peak = anytime.best().total, .report = anytime.Report()};
}

}  // namespace snug::core::memory
