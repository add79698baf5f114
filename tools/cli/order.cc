// `snug order FILE`: an order of the tasks of a file with the least peak, and offsets for what they hand to each other.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "memory/formats/graph.h"
#include "memory/formats/text_file.h"
#include "memory/order/task_net.h"
#include "memory/strategies.h"
#include "memory/verifier.h"
#include "tools/cli/command.h"
#include "tools/cli/flags.h"
#include "tools/cli/json.h"
#include "tools/cli/memory_flags.h"

namespace snug::cli {
namespace {

using memory::GraphFile;
using memory::SearchReport;
using memory::TaskPlan;
using memory::Tasks;

struct Request {
  std::string file, strategy, write;
  memory::PlannerOptions options;
};

struct Outcome {
  TaskPlan plan;
  int64_t peak = 0, total = 0, lower_bound = 0, total_lower_bound = 0;
  double seconds = 0;
  absl::Status verified;

  bool proven() const { return total == total_lower_bound; }
  bool reproducible() const { return !plan.ordering.clock_stopped && !plan.placement.report.clock_stopped; }
  int64_t work() const { return plan.ordering.work + plan.placement.report.work; }
  // What the arena has beyond the most bytes that are live at once.
  double fragmentation() const {
    return total == 0 ? 0 : static_cast<double>(total - peak) / static_cast<double>(total);
  }
};

// The peak as the file's rules say, one task after the other; planners count it in other ways.
int64_t Replay(const Tasks& tasks, const memory::TaskOrder& order) {
  std::vector<std::vector<size_t>> writes(tasks.names.size()), reads(tasks.names.size());
  std::vector<size_t> readers_left;
  int64_t live = 0;
  for (size_t v = 0; v < tasks.values.size(); ++v) {
    const memory::TaskValue& value = tasks.values[v];
    readers_left.push_back(value.readers.size());
    if (value.resident) {
      live += value.size_bytes;
      continue;
    }
    writes[static_cast<size_t>(value.producer)].push_back(v);
    for (const int32_t reader : value.readers) reads[static_cast<size_t>(reader)].push_back(v);
  }
  int64_t peak = live;
  for (const int32_t task : order) {
    for (const size_t v : writes[static_cast<size_t>(task)]) live += tasks.values[v].size_bytes;
    peak = std::max(peak, live);
    for (const size_t v : writes[static_cast<size_t>(task)]) {
      if (readers_left[v] == 0) live -= tasks.values[v].size_bytes;
    }
    for (const size_t v : reads[static_cast<size_t>(task)]) {
      if (--readers_left[v] == 0) live -= tasks.values[v].size_bytes;
    }
  }
  return peak;
}

absl::Status VerifyPlan(const Tasks& tasks, const TaskPlan& plan, int64_t peak) {
  SNUG_RETURN_IF_ERROR(CheckOrder(tasks, plan.order));
  if (const int64_t replayed = Replay(tasks, plan.order); replayed != peak) {
    return absl::InternalError(absl::StrCat("the peak should be ", peak, "; replayed, it is ", replayed));
  }
  return Verify(LifetimesOf(tasks, plan.order), plan.placement.plan);
}

absl::StatusOr<Outcome> Plan(const Tasks& tasks, const Request& request) {
  const auto begin = std::chrono::steady_clock::now();
  Outcome outcome;
  const memory::TaskOrder program = memory::TaskNet(tasks).ProgramOrder();
  SNUG_ASSIGN_OR_RETURN(outcome.plan, memory::PlanTasks(tasks, program, request.strategy, request.options));
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  outcome.peak = PeakOf(tasks, outcome.plan.order);
  outcome.total = outcome.plan.placement.plan.arena_bytes;
  outcome.lower_bound = outcome.plan.ordered ? outcome.plan.ordering.lower_bound : outcome.peak;
  // A program of order and offsets in one has a bound of its own for the total.
  outcome.total_lower_bound = std::max(outcome.lower_bound, outcome.plan.placement.report.lower_bound);
  outcome.verified = VerifyPlan(tasks, outcome.plan, outcome.peak);
  return outcome;
}

// While it orders, the total is the peak of the best order; then what its buffers take.
std::vector<memory::CurvePoint> Curve(const Outcome& outcome) {
  std::vector<memory::CurvePoint> curve = outcome.plan.ordering.curve;
  for (const memory::CurvePoint& point : outcome.plan.placement.report.curve) {
    curve.push_back({outcome.plan.ordering.seconds + point.seconds, point.total, outcome.lower_bound});
  }
  return curve;
}

void PrintJson(const Request& request, const Tasks& tasks, const Outcome& outcome) {
  Json out;
  out.Object().Key("file").String(request.file).Key("strategy").String(request.strategy);
  out.Key("tasks").Number(int64_t{tasks.size()}).Key("values").Number(static_cast<int64_t>(tasks.values.size()));
  out.Key("peak").Number(outcome.peak).Key("total").Number(outcome.total);
  out.Key("lower_bound").Number(outcome.lower_bound).Key("total_lower_bound").Number(outcome.total_lower_bound);
  out.Key("lower_bound_over").String(outcome.plan.ordered ? "all orders" : "this order");
  out.Key("proven").Bool(outcome.proven()).Key("peak_proven").Bool(outcome.peak == outcome.lower_bound);
  out.Key("verified").Bool(outcome.verified.ok()).Key("fragmentation").Number(outcome.fragmentation());
  out.Key("seconds").Number(outcome.seconds).Key("work").Number(outcome.work());
  out.Key("reproducible").Bool(outcome.reproducible()).Key("curve").Array();
  for (const memory::CurvePoint& point : Curve(outcome)) {
    out.Object().Key("seconds").Number(point.seconds).Key("total").Number(point.total);
    out.Key("lower_bound").Number(point.lower_bound).End();
  }
  out.End().End();
  std::puts(out.text().c_str());
}

void PrintText(const Request& request, const Tasks& tasks, const Outcome& outcome) {
  const auto against_bound = [](int64_t bytes, int64_t bound) {
    if (bytes == bound) return std::string("proven optimal");
    return absl::StrFormat("%.3f %% above the bound",
                           100.0 * static_cast<double>(bytes - bound) / static_cast<double>(bytes));
  };
  absl::PrintF("%s: %d tasks, %d values, %s\n", request.file, tasks.size(), tasks.values.size(), request.strategy);
  absl::PrintF("peak           %d (%s)\n", outcome.peak, against_bound(outcome.peak, outcome.lower_bound));
  absl::PrintF("total          %d (%s)\n", outcome.total, against_bound(outcome.total, outcome.total_lower_bound));
  absl::PrintF("lower bound    %d (over %s)\n", outcome.lower_bound,
               outcome.plan.ordered ? "all orders" : "this order");
  absl::PrintF("fragmentation  %.3f %%\n", 100 * outcome.fragmentation());
  absl::PrintF("verified       %s\n", outcome.verified.ok() ? "yes" : std::string(outcome.verified.message()));
  absl::PrintF("seconds        %.3f (work %d%s)\n", outcome.seconds, outcome.work(),
               outcome.reproducible() ? "" : "; stopped by the clock: not reproducible");
}

}  // namespace

absl::StatusOr<int> RunOrder(const Arguments& arguments) {
  Request request{.strategy = std::string(memory::kDefaultStrategy)};
  PlannerFlags planner;
  int64_t threads = 0;
  bool json = false;
  std::vector<absl::string_view> names;
  for (const memory::Strategy& strategy : memory::Strategies()) names.push_back(strategy.name);
  Flags flags("snug order FILE [flags]",
              "Orders the tasks of a file (node and tensor lines; gzipped or not) for the least peak, places what they "
              "hand to each\nother, and verifies both.");
  flags.Add("memory", &request.strategy,
            absl::StrCat("strategy: ", absl::StrJoin(names, ", "), "; those that do not order keep the file's order"));
  planner.AddTo(flags);
  flags.Add("threads", &threads, "threads of the search, which do not change its result; default: every processor", 1,
            kMaxThreads);
  flags.Add("write", &request.write, "file to write the ids of the nodes to, in order, one a line");
  flags.Add("json", &json, "print one JSON document");
  SNUG_ASSIGN_OR_RETURN(request.file, flags.ParseOne(arguments, "a file of tasks"));
  SNUG_ASSIGN_OR_RETURN(request.options, planner.Options());
  if (threads > 0) request.options.threads = static_cast<int>(threads);
  SNUG_RETURN_IF_ERROR(memory::FindStrategy(request.strategy));
  SNUG_ASSIGN_OR_RETURN(const GraphFile file, memory::ReadGraphFile(request.file));
  SNUG_ASSIGN_OR_RETURN(const Outcome outcome, Plan(file.tasks, request));
  if (json) {
    PrintJson(request, file.tasks, outcome);
  } else {
    PrintText(request, file.tasks, outcome);
  }
  SNUG_RETURN_IF_ERROR(Annotate(outcome.verified, "the plan was refused"));
  if (!request.write.empty()) {
    std::string ids;
    for (const int32_t task : outcome.plan.order) absl::StrAppend(&ids, file.ids[static_cast<size_t>(task)], "\n");
    SNUG_RETURN_IF_ERROR(memory::WriteTextFile(request.write, ids));
  }
  return 0;
}

}  // namespace snug::cli
