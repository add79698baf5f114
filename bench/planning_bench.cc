// How planning grows with the graph: seconds of each part, and how far the plan is from the lower bound.
//   planning_bench [--work-limit=N] KIND:TASKS | NETWORK.pbtxt ...
// KIND is one of tests/memory/large_tasks.h. Of a network it prints first what the parts of its compile take, in
// training at the batch that its file has, or 1. "order" is the search for an order with its bound, "place" the search
// for offsets under it, "check" the independent checks of order and plan; "plan" is all of them as `snug plan` runs
// them, which may place a second order.
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/pipeline.h"
#include "memory/in_place.h"
#include "memory/order/in_place_tasks.h"
#include "memory/order/order_search.h"
#include "memory/place/placers.h"
#include "memory/strategies.h"
#include "memory/verifier.h"
#include "proto/text_loader.h"
#include "tests/memory/large_tasks.h"

namespace snug::core {
namespace {

class Clock {
 public:
  // Returns the seconds since the last call.
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void PlanAndPrint(const std::string& name, const memory::Tasks& tasks, const memory::TaskOrder& given,
                  memory::PlannerOptions options) {
  Clock clock;
  const memory::TaskPlan plan = memory::PlanTasks(tasks, given, memory::kDefaultStrategy, options).value();
  const double all = clock.Lap();
  if (options.work_limit == 0) options.work_limit = int64_t{1} << 24;  // what best gives each of its parts
  const memory::InPlaceTasks plain = memory::WithoutInPlace(tasks).value();
  const double in_place = clock.Lap();
  const memory::Ordering ordering = memory::OrderBest(plain.tasks, options).value();
  const double order = clock.Lap();
  const memory::Problem problem = memory::LifetimesOf(tasks, plan.order);
  const int64_t load = memory::LowerBound(problem);
  const double lifetimes = clock.Lap();
  const memory::Placement placement = memory::PlaceFolded(problem, options, memory::PlaceExact).value();
  const double place = clock.Lap();
  SNUG_CHECK_OK(memory::CheckOrder(tasks, plan.order));
  SNUG_CHECK_OK(memory::Verify(problem, plan.placement.plan));
  const double check = clock.Lap();
  const int64_t total = plan.placement.plan.arena_bytes, bound = plan.placement.report.lower_bound;
  std::printf(
      "%-28s %7d tasks %7zu values  plan %7.3f s: in place %6.3f, order %6.3f, lifetimes %6.3f, place %6.3f, check "
      "%6.3f  total %lld, over the bound %.3f %%, over its order's load %.3f %%\n",
      name.c_str(), tasks.size(), tasks.values.size(), all, in_place, order, lifetimes, place, check,
      static_cast<long long>(total), 100 * static_cast<double>(total - bound) / static_cast<double>(bound),
      100 * static_cast<double>(total - load) / static_cast<double>(load));
  if (ordering.report.lower_bound != bound) std::printf("    the bound differs: %lld\n", static_cast<long long>(bound));
}

void CompileAndPlan(const std::string& file, const memory::PlannerOptions& options) {
  Clock clock;
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkFile(file);
  SNUG_CHECK_OK(loaded.status());
  const double load = clock.Lap();
  double import = 0, forward = 0, backward = 0, passes = 0, kernels = 0;
  const CompileOptions compile{.observer = [&](absl::string_view stage, const Graph&) {
    double* part = &passes;
    if (stage == "10_graph") part = &import;
    if (stage > "10_graph" && stage < "30_backward") part = &forward;
    if (stage >= "30_backward" && stage < "41") part = &backward;
    if (stage == "70_kernels") part = &kernels;
    *part += clock.Lap();
  }};
  Compiled compiled = CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(), compile).value();
  const double tasks = clock.Lap();
  SNUG_CHECK_OK(PlanAndLower(compiled, {}));
  const double lower = clock.Lap() - compiled.executable.memory.seconds;
  std::printf(
      "%-28s %7zu nodes  load %6.3f s, import %6.3f, forward passes %6.3f, backward %6.3f, passes %6.3f, kernels "
      "%6.3f, "
      "tasks %6.3f, steps and their check %6.3f\n",
      file.c_str(), compiled.graph.num_nodes(), load, import, forward, backward, passes, kernels, tasks, lower);
  PlanAndPrint(file, compiled.tasks.tasks, GivenOrder(compiled.graph, compiled.tasks), options);
}

}  // namespace
}  // namespace snug::core

int main(int argc, char** argv) {
  snug::core::memory::PlannerOptions options;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    int tasks = 0;
    const std::vector<std::string> parts = absl::StrSplit(argument, ':');
    if (absl::ConsumePrefix(&argument, "--work-limit=")) {
      SNUG_CHECK(absl::SimpleAtoi(argument, &options.work_limit));
    } else if (parts.size() == 2 && absl::SimpleAtoi(parts[1], &tasks)) {
      const snug::core::memory::Tasks generated = snug::core::memory::LargeTasks(parts[0], tasks);
      snug::core::memory::TaskOrder order;
      for (int32_t t = 0; t < generated.size(); ++t) order.push_back(t);
      snug::core::PlanAndPrint(argv[i], generated, order, options);
    } else {
      snug::core::CompileAndPlan(argv[i], options);
    }
    std::fflush(stdout);
  }
  return 0;
}
