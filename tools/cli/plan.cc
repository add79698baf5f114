// `snug plan NET` shows where every byte of a step lies, when it is needed, and how much the step needs.
#include "tools/cli/plan.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <cstdio>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/compile/control/loop_report.h"
#include "engine/compile/memory/memory_report.h"
#include "engine/compile/memory/plan_memory.h"
#include "engine/compile/pipeline.h"
#include "engine/compile/schedule/stages.h"
#include "engine/run/observe/roofline.h"
#include "memory/formats/text_file.h"
#include "proto/text_loader.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/compile_flags.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/memory_flags.h"
#include "tools/cli/flags/optimizer_flags.h"
#include "tools/cli/flags/output_flag.h"
#include "tools/cli/flags/roofline_flag.h"
#include "tools/cli/memory/plan_batches.h"

namespace snug::core::cli {
namespace {

// What is shown of a buffer or Variable.
struct PlanRow {
  absl::string_view name, op;
  MemoryKind kind;
  const memory::Buffer* buffer;
  int64_t offset;
};

absl::string_view OpOf(const Compiled& compiled, int32_t task) {
  if (task < 0) return "input";
  return compiled.graph.node(compiled.tasks.node_of_task[static_cast<size_t>(task)]).op;
}

PlanRow RowOf(const Compiled& compiled, int32_t buffer) {
  const auto i = static_cast<size_t>(buffer);
  const memory::TaskPlan& step = compiled.executable.memory.step;
  return {step.problem.buffers[i].name, OpOf(compiled, compiled.tasks.tasks.values[i].producer),
          compiled.tasks.kind_of_buffer[i], &step.problem.buffers[i], step.placement.plan.offsets[i]};
}

PlanRow VariableRow(const Compiled& compiled, size_t i) {
  const MemoryPlan& plan = compiled.executable.memory;
  return {plan.state_problem.buffers[i].name, "variable", compiled.tasks.kind_of_variable[i],
          &plan.state_problem.buffers[i], plan.state_plan.offsets[i]};
}

std::string PeakName(const Compiled& compiled, int32_t position) {
  const memory::TaskOrder& order = compiled.executable.memory.step.order;
  if (static_cast<size_t>(position) >= order.size()) return "after the last node";
  return compiled.tasks.tasks.names[static_cast<size_t>(order[static_cast<size_t>(position)])];
}

void PrintRow(const PlanRow& row, bool lifetime) {
  const std::string live = lifetime ? absl::StrFormat("%d-%d", row.buffer->first, row.buffer->last) : "always";
  absl::PrintF("%14d %14d  %-11s %-11s %-24s %s\n", row.offset, row.buffer->size_bytes, live, MemoryKindName(row.kind),
               row.op, row.name);
}

constexpr char kHeading[] = "        offset          bytes  live        kind        op                       name\n";

void PrintBuffers(const Compiled& compiled) {
  const MemoryPlan& plan = compiled.executable.memory;
  absl::PrintF("state arena, %d bytes\n%s", plan.state_plan.arena_bytes, kHeading);
  for (size_t i = 0; i < plan.state_problem.buffers.size(); ++i) PrintRow(VariableRow(compiled, i), false);
  absl::PrintF("\nstep arena, %d bytes; live: from and to the n-th node that runs\n%s",
               plan.step.placement.plan.arena_bytes, kHeading);
  for (size_t i = 0; i < plan.step.problem.buffers.size(); ++i) {
    PrintRow(RowOf(compiled, static_cast<int32_t>(i)), true);
  }
}

std::string ProofText(const MemoryPlan& plan) {
  if (plan.proven()) return "proven: no plan needs less";
  const int64_t gap = plan.total_bytes() - plan.lower_bound();
  const double percent =
      plan.lower_bound() == 0 ? 0 : 100.0 * static_cast<double>(gap) / static_cast<double>(plan.lower_bound());
  return absl::StrFormat("gap %d bytes, %.3f %%", gap, percent);
}

void PrintTotals(const Compiled& compiled, const MemoryReport& report) {
  const MemoryPlan& plan = compiled.executable.memory;
  const memory::SearchReport& search = plan.step.placement.report;
  absl::PrintF("strategy       %s\n", plan.strategy);
  absl::PrintF("state arena    %14d bytes\n", plan.state_plan.arena_bytes);
  absl::PrintF("step arena     %14d bytes\n", plan.step.placement.plan.arena_bytes);
  absl::PrintF("total          %14d bytes, %.3f MB\n", plan.total_bytes(),
               static_cast<double>(plan.total_bytes()) * 1e-6);
  if (compiled.derivation != nullptr) {
    absl::PrintF("when weights are set %8d bytes, while what is kept of them is computed\n", compiled.planned_bytes());
  }
  absl::PrintF("lower bound    %14d bytes, over %s; %s\n", plan.lower_bound(),
               plan.step.ordered ? "all orders" : "this order", ProofText(plan));
  absl::PrintF("fragmentation  %14.2f %% of the step arena\n",
               100 * report.Fragmentation(plan.step.placement.plan.arena_bytes));
  absl::PrintF(
      "planning       %14.3f s%s\n", plan.seconds,
      search.clock_stopped || plan.step.ordering.clock_stopped ? ", stopped by the clock: not reproducible" : "");
  for (const std::string& note : search.notes) absl::PrintF("search         %s\n", note);
  if (const Schedule& schedule = compiled.executable.schedule; schedule.count() > 1) {
    const StreamEstimate estimate = EstimateStreams(compiled.tasks, compiled.executable);
    absl::PrintF(
        "streams        %14d, %d waits; by estimated costs %.2f times as fast as one, %.2f did none wait for bytes\n",
        schedule.count(), schedule.waits.size(), estimate.one_stream / estimate.scheduled,
        estimate.one_stream / estimate.unlimited);
  }
  absl::PrintF("at the peak    ");
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    absl::PrintF("%s%s %d", kind == 0 ? "" : ", ", MemoryKindName(static_cast<MemoryKind>(kind)),
                 report.bytes[static_cast<size_t>(kind)]);
  }
  absl::PrintF(" bytes\n%s%s%s", StashText(compiled), TablesText(compiled.tables), InVainText(compiled));
}

void PrintPeak(const Compiled& compiled, const MemoryReport& report, int64_t top) {
  const std::vector<int32_t> live = LiveAt(compiled.executable.memory, report.peak);
  absl::PrintF("\nthe peak: position %d of %d, %s; %d buffers are live, the largest:\n%s", report.peak,
               compiled.executable.memory.step.order.size(), PeakName(compiled, report.peak), live.size(), kHeading);
  for (size_t i = 0; i < live.size() && i < static_cast<size_t>(top); ++i) PrintRow(RowOf(compiled, live[i]), true);
}

void WriteRow(Json& json, const PlanRow& row, bool lifetime) {
  json.Object().Key("name").String(row.name).Key("op").String(row.op).Key("kind").String(MemoryKindName(row.kind));
  json.Key("bytes").Number(row.buffer->size_bytes).Key("offset").Number(row.offset);
  if (lifetime) {
    json.Key("first").Number(static_cast<int64_t>(row.buffer->first));
    json.Key("last").Number(static_cast<int64_t>(row.buffer->last));
  }
  json.End();
}

void WriteCurve(Json& json, absl::string_view key, const memory::SearchReport& report) {
  json.Key(key).Array();
  for (const memory::CurvePoint& point : report.curve) {
    json.Object().Key("seconds").Number(point.seconds).Key("total").Number(point.total);
    json.Key("lower_bound").Number(point.lower_bound).End();
  }
  json.End();
}

void PrintJson(const Compiled& compiled, const MemoryReport& report, const std::optional<Roofline>& roofline,
               int64_t top) {
  const MemoryPlan& plan = compiled.executable.memory;
  Json json;
  json.Object().Key("network").String(compiled.graph.name).Key("batch").Number(compiled.batch);
  json.Key("mode").String(compiled.training ? "training" : "forward").Key("strategy").String(plan.strategy);
  json.Key("state").Number(plan.state_plan.arena_bytes).Key("step").Number(plan.step.placement.plan.arena_bytes);
  json.Key("total").Number(plan.total_bytes());
  if (compiled.derivation != nullptr) json.Key("total_with_derivation").Number(compiled.planned_bytes());
  json.Key("lower_bound").Number(plan.lower_bound());
  json.Key("bound_over").String(plan.step.ordered ? "all orders" : "this order");
  json.Key("proven").Bool(plan.proven()).Key("gap").Number(plan.total_bytes() - plan.lower_bound());
  json.Key("fragmentation").Number(report.Fragmentation(plan.step.placement.plan.arena_bytes));
  json.Key("seconds").Number(plan.seconds);
  const StreamEstimate estimate = EstimateStreams(compiled.tasks, compiled.executable);
  json.Key("streams").Object().Key("count").Number(static_cast<int64_t>(compiled.executable.schedule.count()));
  json.Key("waits").Number(static_cast<int64_t>(compiled.executable.schedule.waits.size()));
  json.Key("estimated_speedup").Number(estimate.one_stream / estimate.scheduled);
  json.Key("without_memory_waits").Number(estimate.one_stream / estimate.unlimited).End();
  WriteLoops(compiled, json);
  WriteTables(compiled.tables, json);
  json.Key("reproducible").Bool(!plan.step.placement.report.clock_stopped && !plan.step.ordering.clock_stopped);
  json.Key("notes").Array();
  for (const std::string& note : plan.step.placement.report.notes) json.String(note);
  json.End();
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    json.Key(MemoryKindName(static_cast<MemoryKind>(kind))).Number(report.bytes[static_cast<size_t>(kind)]);
  }
  json.Key("peak").Object().Key("position").Number(static_cast<int64_t>(report.peak));
  json.Key("node").String(PeakName(compiled, report.peak)).Key("step_bytes").Number(report.step_bytes);
  json.Key("top").Array();
  const std::vector<int32_t> live = LiveAt(plan, report.peak);
  for (size_t i = 0; i < live.size() && i < static_cast<size_t>(top); ++i)
    WriteRow(json, RowOf(compiled, live[i]), true);
  json.End().End();
  WriteCurve(json, "curve", plan.step.placement.report);
  WriteCurve(json, "order_curve", plan.step.ordering);
  json.Key("variables").Array();
  for (size_t i = 0; i < plan.state_problem.buffers.size(); ++i) WriteRow(json, VariableRow(compiled, i), false);
  json.End().Key("buffers").Array();
  for (size_t i = 0; i < plan.step.problem.buffers.size(); ++i) {
    WriteRow(json, RowOf(compiled, static_cast<int32_t>(i)), true);
  }
  json.End().Key("order").Array();
  for (const int32_t task : plan.step.order) json.String(compiled.tasks.tasks.names[static_cast<size_t>(task)]);
  json.End();
  if (roofline.has_value()) WriteRoofline(*roofline, {}, json.Key("roofline"));
  json.End();
  std::puts(json.text().c_str());
}

// Compares a loaded plan with what planning anew gives.
void PrintComparison(const MemoryPlan& loaded, const MemoryPlan& fresh) {
  size_t moved = 0;
  const std::vector<int64_t>& before = loaded.step.placement.plan.offsets;
  for (size_t i = 0; i < before.size(); ++i) moved += before[i] != fresh.step.placement.plan.offsets[i];
  const int64_t change = loaded.total_bytes() - fresh.total_bytes();
  absl::PrintF("\nbeside a fresh plan by %s: %d bytes %s, %s order, %d of %d buffers elsewhere\n", fresh.strategy,
               change < 0 ? -change : change, change < 0 ? "less" : "more",
               loaded.step.order == fresh.step.order ? "the same" : "another", moved, before.size());
}

}  // namespace

absl::StatusOr<int> RunPlan(const Arguments& arguments) {
  CompileFlags compile_flags;
  MemoryFlags memory_flags;
  bool train = true;
  bool forward = false;
  bool json = false;
  constexpr int64_t kTop = 10;
  std::optional<int64_t> top;
  std::string write_plan, html, svg;
  Flags flags(
      "snug plan NET [flags]",
      "Plans the memory of a step and shows what lies where, the peak and its largest buffers, and how near the\n"
      "total is to the least possible.");
  flags.Add("train", &train, "a training step (the default)");
  flags.Add("forward", &forward, "the forward pass only");
  compile_flags.AddTo(flags);
  compile_flags.AddKeepDerivedTo(flags);
  compile_flags.AddOnlyTo(flags);
  memory_flags.AddTo(flags);
  flags.Add("write-plan", &write_plan, "file to save the plan to: *.pbtxt and *.txt text, everything else binary");
  flags.Add("html", &html,
            "file for the picture, a page of its own: address against time, every strategy to choose from; loops open");
  flags.Add("svg", &svg, "file for the picture of this plan alone, for print");
  BatchRangeFlags batches;
  batches.AddTo(flags);
  RooflineFlag roofline_flag;
  roofline_flag.AddTo(flags, "print how long each kernel of the step would take on a GPU");
  flags.Add("top", &top, "how many of the largest buffers at the peak are listed; default 10");
  AddJsonFlag(flags, &json);
  OptimizerFlags optimizer;
  optimizer.AddTo(flags);
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  SNUG_RETURN_IF_ERROR(batches.Check());
  SNUG_RETURN_IF_ERROR(optimizer.CheckForwardOnly(forward));
  const std::vector<std::string> read = {file, memory_flags.plan_file, compile_flags.tuning};
  SNUG_RETURN_IF_ERROR(CheckNotRead("write-plan", write_plan, read));
  SNUG_RETURN_IF_ERROR(CheckNotRead("html", html, read));
  SNUG_RETURN_IF_ERROR(CheckNotRead("svg", svg, read));
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkFile(file));
  SNUG_ASSIGN_OR_RETURN(CompileOptions options, compile_flags.Options(memory_flags.streams.count));
  SNUG_ASSIGN_OR_RETURN(options.memory, memory_flags.Options({&loaded}));
  options.training = train && !forward;
  SNUG_RETURN_IF_ERROR(optimizer.SetIn(loaded, &options));
  if (batches.asked()) {
    return RunPlanBatches(batches, loaded, options, json,
                          !write_plan.empty()                 ? "--write-plan"
                          : !options.memory.plan_file.empty() ? "--plan"
                          : !html.empty()                     ? "--html"
                          : !svg.empty()                      ? "--svg"
                          : roofline_flag.asked()             ? "--roofline"
                          : top.has_value()                   ? "--top"
                                                              : "");
  }

  SNUG_ASSIGN_OR_RETURN(Compiled compiled, Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options));
  if (!write_plan.empty()) SNUG_RETURN_IF_ERROR(SavePlan(compiled, write_plan));
  if (options.memory.strategy == kDynamicMemory && !(html.empty() && svg.empty())) {
    return absl::InvalidArgumentError("--html and --svg draw a plan: --memory=dynamic has none");
  }
  if (!html.empty()) {
    SNUG_ASSIGN_OR_RETURN(const Picture picture, MakePicture(compiled, options.memory, true));
    SNUG_RETURN_IF_ERROR(memory::WriteTextFile(html, PicturePage(picture)));
  }
  if (!svg.empty()) {
    SNUG_ASSIGN_OR_RETURN(const Picture picture, MakePicture(compiled, options.memory, false));
    SNUG_RETURN_IF_ERROR(memory::WriteTextFile(svg, PictureSvg(picture)));
  }
  std::optional<Roofline> roofline;
  if (roofline_flag.asked()) {
    if (options.memory.strategy == kDynamicMemory) {
      return absl::InvalidArgumentError("--roofline shows the Steps of a plan: --memory=dynamic has none");
    }
    SNUG_ASSIGN_OR_RETURN(const DeviceModel device, roofline_flag.Model(compiled.device));
    roofline = PredictStep(compiled, OpRegistry::Builtin(), device);
  }
  const MemoryReport report = ReportOf(compiled.tasks, compiled.executable.memory);
  const int64_t shown = top.value_or(kTop);
  if (compiled.executable.memory.dynamic.has_value()) {
    std::puts((json ? DynamicPlanJson(compiled, report, shown) : DynamicPlanText(compiled, report, shown)).c_str());
    return 0;
  }
  if (json) {
    PrintJson(compiled, report, roofline, shown);
    return 0;
  }
  if (roofline.has_value()) {
    absl::PrintF("%s, batch %d, %s\n\n%s", compiled.graph.name, compiled.batch,
                 compiled.training ? "training" : "forward only", RooflineTable(*roofline, {}));
    return 0;
  }
  absl::PrintF("%s, batch %d, %s\n\n", compiled.graph.name, compiled.batch,
               compiled.training ? "training" : "forward only");
  PrintBuffers(compiled);
  PrintPeak(compiled, report, shown);
  std::putchar('\n');
  PrintTotals(compiled, report);
  const std::pair<const char*, const std::string&> written[] = {
      {"the plan", write_plan}, {"the page", html}, {"the picture", svg}};
  for (const auto& [what, path] : written) {
    if (!path.empty()) absl::PrintF("%s is in %s\n", what, path);
  }
  if (!options.memory.plan_file.empty()) {
    const MemoryPlan from_file = compiled.executable.memory;
    options.memory.plan_file.clear();
    if (memory::FindStrategy(from_file.strategy).ok()) options.memory.strategy = from_file.strategy;
    SNUG_RETURN_IF_ERROR(PlanAndLower(compiled, options.memory));
    PrintComparison(from_file, compiled.executable.memory);
  }
  return 0;
}

}  // namespace snug::core::cli
