// `snug order FILE` finds an order with a low peak for the tasks in a file, and offsets for the values that they pass
// to each other.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "memory/formats/formats.h"
#include "memory/formats/text_file.h"
#include "memory/order/task_net.h"
#include "memory/partial_plan.h"
#include "memory/strategies.h"
#include "memory/verifier.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/output_flag.h"
#include "tools/cli/flags/planner_flags.h"

namespace snug::core::cli {
namespace {

using memory::PartialProblem;
using memory::SearchReport;
using memory::TaskPlan;
using memory::Tasks;
using memory::UsesPlan;

struct OrderRequest {
  std::string file, strategy, write;
  memory::PlannerOptions options;
};

struct OrderOutcome {
  memory::TaskOrder order;
  std::vector<int64_t> ids;  // the order, with the file's ids
  size_t values = 0;
  bool ordered = false;  // whether the strategy chose the order
  SearchReport ordering, placing;
  int64_t peak = 0, total = 0, lower_bound = 0, total_lower_bound = 0;
  double seconds = 0;
  absl::Status verified;

  bool proven() const { return total == total_lower_bound; }
  bool reproducible() const { return !ordering.clock_stopped && !placing.clock_stopped; }
  int64_t work() const { return ordering.work + placing.work; }
  std::vector<std::string> notes() const {
    std::vector<std::string> notes = ordering.notes;
    notes.insert(notes.end(), placing.notes.begin(), placing.notes.end());
    return notes;
  }
  // Returns the share of the arena that the live bytes at the peak leave empty.
  double fragmentation() const {
    return total == 0 ? 0 : static_cast<double>(total - peak) / static_cast<double>(total);
  }
};

class Stopwatch {
 public:
  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Computes the peak by the file's own rules, one task after the other; planners compute it in other ways.
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

// Does the same for buffers and their uses.
int64_t Replay(const PartialProblem& problem, const memory::TaskOrder& order) {
  std::vector<size_t> position(order.size());
  for (size_t at = 0; at < order.size(); ++at) position[static_cast<size_t>(order[at])] = at;
  std::vector<int64_t> live(order.size(), 0);
  for (const memory::PartialBuffer& buffer : memory::WithoutViews(problem).buffers) {
    size_t first = order.size();
    size_t last = 0;
    for (const int32_t task : buffer.heads) first = std::min(first, position[static_cast<size_t>(task)]);
    for (const int32_t task : buffer.tails) last = std::max(last, position[static_cast<size_t>(task)]);
    for (size_t at = first; at <= last; ++at) live[at] += buffer.size_bytes;
  }
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

absl::Status CheckPeak(int64_t peak, int64_t replayed) {
  if (replayed == peak) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the peak should be ", peak, "; replayed, it is ", replayed));
}

absl::Status VerifyPlan(const Tasks& tasks, const TaskPlan& plan, int64_t peak) {
  SNUG_RETURN_IF_ERROR(CheckOrder(tasks, plan.order));
  SNUG_RETURN_IF_ERROR(CheckPeak(peak, Replay(tasks, plan.order)));
  return Verify(LifetimesOf(tasks, plan.order), plan.placement.plan);
}

// If the problem forbids the order, the two together have a cycle, which the verifier finds.
absl::Status VerifyPlan(const PartialProblem& problem, const UsesPlan& plan, int64_t peak) {
  SNUG_RETURN_IF_ERROR(VerifyPartial(InSequence(problem, plan.order), plan.placement.plan));
  return CheckPeak(peak, Replay(problem, plan.order));
}

// `plan` is a TaskPlan for tasks, and a UsesPlan for a partial problem.
template <typename Problem, typename Plan>
OrderOutcome OrderOutcomeOf(const Problem& problem, Plan plan, double seconds) {
  OrderOutcome outcome{.values = plan.placement.plan.offsets.size(), .ordered = plan.ordered, .seconds = seconds};
  outcome.peak = PeakOf(problem, plan.order);
  outcome.total = plan.placement.plan.arena_bytes;
  outcome.lower_bound = plan.ordered ? plan.ordering.lower_bound : outcome.peak;
  // A joint program for order and offsets may have a better bound for the total.
  outcome.total_lower_bound = std::max(outcome.lower_bound, plan.placement.report.lower_bound);
  outcome.verified = VerifyPlan(problem, plan, outcome.peak);
  outcome.order = std::move(plan.order);
  outcome.ordering = std::move(plan.ordering);
  outcome.placing = std::move(plan.placement.report);
  return outcome;
}

absl::StatusOr<OrderOutcome> OrderTasks(const Tasks& tasks, const OrderRequest& request) {
  const Stopwatch watch;
  const memory::TaskOrder program = memory::TaskNet(tasks).ProgramOrder();
  SNUG_ASSIGN_OR_RETURN(TaskPlan plan, memory::PlanTasks(tasks, program, request.strategy, request.options));
  return OrderOutcomeOf(tasks, std::move(plan), watch.Seconds());
}

absl::StatusOr<OrderOutcome> OrderUses(const PartialProblem& problem, const OrderRequest& request) {
  const Stopwatch watch;
  SNUG_ASSIGN_OR_RETURN(const memory::Strategy* const strategy, memory::FindStrategy(request.strategy));
  SNUG_ASSIGN_OR_RETURN(UsesPlan plan, memory::PlanUses(problem, *strategy, request.options));
  return OrderOutcomeOf(problem, std::move(plan), watch.Seconds());
}

absl::StatusOr<OrderOutcome> OrderFile(const OrderRequest& request) {
  SNUG_ASSIGN_OR_RETURN(const std::string text, memory::ReadTextFile(request.file));
  if (memory::IsNnc(text)) {
    SNUG_ASSIGN_OR_RETURN(const memory::NncFile file, memory::ParseNnc(text, request.file));
    SNUG_ASSIGN_OR_RETURN(OrderOutcome outcome, OrderUses(file.problem, request));
    outcome.ids.assign(outcome.order.begin(), outcome.order.end());
    return outcome;
  }
  SNUG_ASSIGN_OR_RETURN(const memory::GraphFile file, memory::ParseGraph(request.file, text));
  SNUG_ASSIGN_OR_RETURN(OrderOutcome outcome, OrderTasks(file.tasks, request));
  for (const int32_t task : outcome.order) outcome.ids.push_back(file.ids[static_cast<size_t>(task)]);
  return outcome;
}

// While the orderer works, the curve shows the peak of the best order; after that, the bytes that the buffers take.
std::vector<memory::CurvePoint> Curve(const OrderOutcome& outcome) {
  std::vector<memory::CurvePoint> curve = outcome.ordering.curve;
  for (const memory::CurvePoint& point : outcome.placing.curve) {
    curve.push_back({outcome.ordering.seconds + point.seconds, point.total, outcome.lower_bound});
  }
  return curve;
}

void PrintJson(const OrderRequest& request, const OrderOutcome& outcome) {
  Json out;
  out.Object().Key("file").String(request.file).Key("strategy").String(request.strategy);
  out.Key("tasks").Number(static_cast<int64_t>(outcome.order.size()));
  out.Key("values").Number(static_cast<int64_t>(outcome.values));
  out.Key("peak").Number(outcome.peak).Key("total").Number(outcome.total);
  out.Key("lower_bound").Number(outcome.lower_bound).Key("total_lower_bound").Number(outcome.total_lower_bound);
  out.Key("lower_bound_over").String(outcome.ordered ? "all orders" : "this order");
  out.Key("proven").Bool(outcome.proven()).Key("peak_proven").Bool(outcome.peak == outcome.lower_bound);
  out.Key("verified").Bool(outcome.verified.ok()).Key("fragmentation").Number(outcome.fragmentation());
  out.Key("seconds").Number(outcome.seconds).Key("work").Number(outcome.work());
  out.Key("reproducible").Bool(outcome.reproducible()).Key("notes").Array();
  for (const std::string& note : outcome.notes()) out.String(note);
  out.End().Key("curve").Array();
  for (const memory::CurvePoint& point : Curve(outcome)) {
    out.Object().Key("seconds").Number(point.seconds).Key("total").Number(point.total);
    out.Key("lower_bound").Number(point.lower_bound).End();
  }
  out.End().End();
  std::puts(out.text().c_str());
}

void PrintText(const OrderRequest& request, const OrderOutcome& outcome) {
  const auto against_bound = [](int64_t bytes, int64_t bound) {
    if (bytes == bound) return std::string("proven optimal");
    return absl::StrFormat("%.3f %% above the bound",
                           100.0 * static_cast<double>(bytes - bound) / static_cast<double>(bytes));
  };
  absl::PrintF("%s: %d tasks, %d values, %s\n", request.file, outcome.order.size(), outcome.values, request.strategy);
  absl::PrintF("peak           %d (%s)\n", outcome.peak, against_bound(outcome.peak, outcome.lower_bound));
  absl::PrintF("total          %d (%s)\n", outcome.total, against_bound(outcome.total, outcome.total_lower_bound));
  absl::PrintF("lower bound    %d (over %s)\n", outcome.lower_bound, outcome.ordered ? "all orders" : "this order");
  absl::PrintF("fragmentation  %.3f %%\n", 100 * outcome.fragmentation());
  absl::PrintF("verified       %s\n", outcome.verified.ok() ? "yes" : std::string(outcome.verified.message()));
  absl::PrintF("seconds        %.3f (work %d%s)\n", outcome.seconds, outcome.work(),
               outcome.reproducible() ? "" : "; stopped by the clock: not reproducible");
  for (const std::string& note : outcome.notes()) absl::PrintF("search         %s\n", note);
}

}  // namespace

absl::StatusOr<int> RunOrder(const Arguments& arguments) {
  OrderRequest request{.strategy = std::string(memory::kDefaultStrategy)};
  PlannerFlags planner;
  bool json = false;
  std::vector<absl::string_view> names;
  for (const memory::Strategy& strategy : memory::Strategies()) names.push_back(strategy.name);
  Flags flags(
      "snug order FILE [flags]",
      "Orders the tasks of a file (node and tensor lines, or NNC's edges, tensors and their uses; gzipped or not) for "
      "the least\npeak, places what they hand to each other, and verifies both.");
  flags.Add("memory", &request.strategy,
            absl::StrCat("strategy: ", absl::StrJoin(names, ", "), "; those that do not order keep the file's order"));
  planner.AddTo(flags);
  planner.AddThreadsTo(flags);
  flags.Add("write", &request.write, "file to write the ids of the nodes to, in order, one a line");
  AddJsonFlag(flags, &json);
  SNUG_ASSIGN_OR_RETURN(request.file, flags.ParseOne(arguments, "a file of tasks"));
  SNUG_RETURN_IF_ERROR(CheckNotRead("write", request.write, {request.file}));
  SNUG_RETURN_IF_ERROR(memory::FindStrategy(request.strategy));
  SNUG_ASSIGN_OR_RETURN(request.options, planner.Options({{.strategy = request.strategy}}));
  SNUG_ASSIGN_OR_RETURN(const OrderOutcome outcome, OrderFile(request));
  SNUG_RETURN_IF_ERROR(Annotate(outcome.verified, "the plan was refused"));
  if (!request.write.empty()) {
    std::string ids;
    for (const int64_t id : outcome.ids) absl::StrAppend(&ids, id, "\n");
    SNUG_RETURN_IF_ERROR(memory::WriteTextFile(request.write, ids));
  }
  if (json) {
    PrintJson(request, outcome);
  } else {
    PrintText(request, outcome);
  }
  return 0;
}

}  // namespace snug::core::cli
