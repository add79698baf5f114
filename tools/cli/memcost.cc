// `snug memcost NET` shows what a step costs in memory under every strategy, forward only and in training.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/compile/control/loop_report.h"
#include "engine/compile/memory/memory_report.h"
#include "engine/compile/pipeline.h"
#include "engine/run/session/random_feed.h"
#include "engine/run/session/saved_inputs.h"
#include "engine/run/session/session.h"
#include "proto/text_loader.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/compile_flags.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/memory_flags.h"

namespace snug::core::cli {
namespace {

struct MemcostRow {
  std::string strategy;
  bool training = false;
  MemoryReport report;
  int64_t arena = 0, lower_bound = 0;
  bool proven = false;
  double seconds = 0;
  int64_t measured = 0;  // bytes taken from the system
  double step_ms = 0;    // the fastest of some steps
};

constexpr int kMeasuredSteps = 3;

absl::Status Measure(Compiled compiled, MemcostRow* row) {
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(std::move(compiled), {}));
  SNUG_RETURN_IF_ERROR(FeedRandom(*session, OpRegistry::Builtin(), 0));
  SavedInputs inputs(*session);
  for (int i = 0; i <= kMeasuredSteps; ++i) {
    inputs.Feed();
    const auto begin = std::chrono::steady_clock::now();
    SNUG_RETURN_IF_ERROR(session->Run());
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (i == 1 || (i > 1 && ms < row->step_ms)) row->step_ms = ms;  // the first step warms up
  }
  row->measured = session->state_bytes() + session->step_bytes();
  return absl::OkStatus();
}

absl::StatusOr<MemcostRow> RowFor(Compiled& compiled, const MemoryOptions& options, bool measure) {
  SNUG_RETURN_IF_ERROR(PlanAndLower(compiled, options));
  const MemoryPlan& plan = compiled.executable.memory;
  MemcostRow row{.strategy = options.strategy,
                 .training = compiled.training,
                 .report = ReportOf(compiled.tasks, plan),
                 .arena = plan.total_bytes(),
                 .lower_bound = plan.lower_bound(),
                 .proven = plan.proven(),
                 .seconds = plan.seconds};
  if (measure) SNUG_RETURN_IF_ERROR(Measure(compiled, &row));
  return row;
}

// `trained` is the network in training, of which loops keep stashes.
void PrintJson(const Compiled& trained, bool measure, const std::vector<MemcostRow>& rows) {
  const std::string& network = trained.graph.name;
  const int64_t batch = trained.batch;
  Json json;
  json.Object().Key("network").String(network).Key("batch").Number(batch).Key("rows").Array();
  for (const MemcostRow& row : rows) {
    json.Object().Key("strategy").String(row.strategy).Key("mode").String(ModeName(row.training));
    for (int kind = 0; kind < kMemoryKinds; ++kind) {
      json.Key(MemoryKindName(static_cast<MemoryKind>(kind))).Number(row.report.bytes[static_cast<size_t>(kind)]);
    }
    json.Key("arena").Number(row.arena).Key("lower_bound").Number(row.lower_bound).Key("proven").Bool(row.proven);
    json.Key("seconds").Number(row.seconds);
    json.Key("measured");
    // Nothing measured becomes null.
    if (measure) {
      json.Number(row.measured).Key("step_ms").Number(row.step_ms).End();
    } else {
      json.Null().Key("step_ms").Null().End();
    }
  }
  json.End();
  WriteLoops(trained, json);
  WriteTables(trained.tables, json);
  json.End();
  std::puts(json.text().c_str());
}

// Returns what `none` needs in the same mode; 0 when it was not asked for.
int64_t Baseline(const std::vector<MemcostRow>& rows, bool training) {
  const auto it = std::find_if(rows.begin(), rows.end(), [&](const MemcostRow& row) {
    return row.strategy == "none" && row.training == training;
  });
  return it == rows.end() ? 0 : it->arena;
}

double Megabytes(int64_t bytes) { return static_cast<double>(bytes) * 1e-6; }

void PrintTable(const Compiled& trained, bool measure, const std::vector<MemcostRow>& rows) {
  const std::string& network = trained.graph.name;
  const int64_t batch = trained.batch;
  absl::PrintF("%s, batch %d; MB = 10^6 bytes; weights to workspace: live at the peak\n\n", network, batch);
  absl::PrintF("%-9s %-9s %12s %6s %12s %-6s %8s %10s %10s %10s %11s %10s", "mode", "strategy", "arena MB", "/none",
               "bound MB", "proven", "plan s", "weights", "gradients", "optimizer", "activations", "workspace");
  absl::PrintF("%s\n", measure ? "  measured MB    step ms" : "");
  for (const MemcostRow& row : rows) {
    const int64_t baseline = Baseline(rows, row.training);
    const std::string ratio =
        baseline == 0 ? "" : absl::StrFormat("%.3f", static_cast<double>(row.arena) / static_cast<double>(baseline));
    absl::PrintF("%-9s %-9s %12.3f %6s %12.3f %-6s %8.3f", ModeName(row.training), row.strategy, Megabytes(row.arena),
                 ratio, Megabytes(row.lower_bound), row.proven ? "yes" : "no", row.seconds);
    constexpr int kWidths[kMemoryKinds] = {10, 10, 10, 11, 10};
    for (size_t kind = 0; kind < kMemoryKinds; ++kind) {
      absl::PrintF(" %*.3f", kWidths[kind], Megabytes(row.report.bytes[kind]));
    }
    if (measure) absl::PrintF(" %12.3f %10.3f", Megabytes(row.measured), row.step_ms);
    std::putchar('\n');
  }
  // Stashes are among the activations, whatever the strategy.
  const std::string stashes = StashText(trained);
  if (!stashes.empty()) absl::PrintF("\n%s", stashes);
  if (!trained.tables.empty()) absl::PrintF("\n%s", TablesText(trained.tables));
  if (!trained.in_vain.empty()) absl::PrintF("\n%s", InVainText(trained));
}

}  // namespace

absl::StatusOr<int> RunMemcost(const Arguments& arguments) {
  CompileFlags compile_flags;
  StrategyListFlags strategy_flags{.slow_seconds = 3};
  bool measure = false;
  bool json = false;
  Flags flags(
      "snug memcost NET [flags]",
      "What a step needs under every strategy, forward only and in training: all planned bytes beside the least\n"
      "possible, and what they are for; for dynamic memory, which is not planned, what is reserved by simulation.");
  compile_flags.AddTo(flags);
  strategy_flags.AddTo(flags);
  flags.Add("measure", &measure, "run some steps of each: bytes taken from the system, and the time of a step");
  AddJsonFlag(flags, &json);
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  SNUG_ASSIGN_OR_RETURN(CompileOptions options, compile_flags.Options(strategy_flags.streams.count));
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkFile(file));
  SNUG_ASSIGN_OR_RETURN(std::vector<MemoryOptions> strategies, strategy_flags.Options(loaded));
  for (MemoryOptions& strategy : strategies) strategy.memory_limit = 0;  // strategies that do not fit are shown too

  std::vector<MemcostRow> rows;
  std::optional<Compiled> trained;
  for (const bool training : {false, true}) {
    options.training = training;
    SNUG_ASSIGN_OR_RETURN(Compiled compiled,
                          CompileGraph(loaded.network, loaded.source_map, OpRegistry::Builtin(), options));
    for (const MemoryOptions& strategy : strategies) {
      const absl::StatusOr<MemcostRow> row = RowFor(compiled, strategy, measure);
      if (!row.ok()) return Annotate(row.status(), absl::StrCat(strategy.strategy, ", ", ModeName(training)));
      rows.push_back(*row);
    }
    if (training) trained = std::move(compiled);
  }
  if (json) {
    PrintJson(*trained, measure, rows);
  } else {
    PrintTable(*trained, measure, rows);
  }
  return 0;
}

}  // namespace snug::core::cli
