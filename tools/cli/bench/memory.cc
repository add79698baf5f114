#include "tools/cli/bench/memory.h"

#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/eager/eager_step.h"
#include "engine/compile/passes/pass.h"
#include "memory/allocator/caching.h"
#include "memory/formats/formats.h"
#include "memory/formats/text_file.h"
#include "memory/strategies.h"
#include "proto/network.pb.h"
#include "tools/cli/flags/compile_flags.h"
#include "tools/cli/flags/memory_flags.h"
#include "tools/cli/flags/output_flag.h"
#include "tools/cli/flags/run_flags.h"

namespace snug::core::cli {
namespace {

// So many steps the allocator's pools are watched for: from the second on they are in disorder, from the third on
// nothing new happened in any network here.
constexpr int kPyTorchSteps = 4;

const std::vector<std::string>& UsualStrategies() {
  static const std::vector<std::string>& names =
      *new std::vector<std::string>{"none", "inplace", "share", "both", "coloring", "nnc", "olla", "best"};
  return names;
}

EagerBytes BytesOf(const memory::Requests& requests) {
  const memory::CachingStatistics statistics = memory::SimulateCachingAllocator(requests, kPyTorchSteps);
  return {.order = statistics.peak_requested_bytes, .reserved = statistics.reserved_bytes};
}

absl::StatusOr<PlannedBytes> PlanBy(Compiled& compiled, const MemoryOptions& options) {
  SNUG_RETURN_IF_ERROR(PlanAndLower(compiled, options));
  const MemoryPlan& plan = compiled.executable.memory;
  return PlannedBytes{.strategy = options.strategy,
                      .bytes = plan.total_bytes(),
                      .lower_bound = plan.lower_bound(),
                      .proven = plan.proven(),
                      .seconds = plan.seconds};
}

absl::StatusOr<MemoryTableRow> RowOf(const LoadedNetwork& loaded, CompileOptions options,
                                     const std::vector<MemoryOptions>& strategies) {
  Graph imported;
  options.observer = [&](absl::string_view stage, const Graph& graph) {
    if (stage == "10_graph" || stage == "11_unroll") imported = graph;
  };
  SNUG_ASSIGN_OR_RETURN(Compiled compiled,
                        CompileGraph(loaded.network, loaded.source_map, OpRegistry::Builtin(), options));
  MemoryTableRow row{
      .network = loaded.network.name(), .batch = compiled.batch, .mode = ModeName(options.training), .planned = {}};
  for (const MemoryOptions& strategy : strategies) {
    absl::StatusOr<PlannedBytes> planned = PlanBy(compiled, strategy);
    if (!planned.ok()) return Annotate(planned.status(), strategy.strategy);
    row.planned.push_back(*std::move(planned));
  }
  if (options.training && loaded.network.update_size() > 0) {
    row.pytorch_missing = "updates that are made one after the other are not simulated";
    return row;
  }
  const absl::StatusOr<memory::Requests> requests = EagerStep(imported, compiled.graph.variables(), options.training);
  if (requests.ok()) {
    row.pytorch = BytesOf(*requests);
  } else if (absl::IsUnimplemented(requests.status())) {
    row.pytorch_missing = std::string(requests.status().message());
  } else {
    return requests.status();
  }
  return row;
}

// Adds what `best` plans for the network compiled otherwise, as a column of that name.
absl::Status AddLeanColumns(const LoadedNetwork& loaded, const CompileOptions& usual, MemoryTableRow* row) {
  for (const LeanColumn& column : LeanColumns()) {
    const absl::string_view name = column.name;
    CompileOptions options = usual;
    for (const absl::Span<const Pass> lean : {ProcessorPasses(), LastProcessorPasses()}) {
      for (const Pass& pass : lean) {
        if (name == "whole") options.disabled_passes.insert(std::string(pass.name));
      }
    }
    options.update_as_made = name != "whole";
    options.recompute_sweeps = name == "swept";
    options.half_byte_indices = name == "halves" || name == "outputs" || name == "blocks";
    options.gradients_from_outputs = name == "outputs" || name == "blocks";
    options.loss_in_blocks = name == "blocks";
    SNUG_ASSIGN_OR_RETURN(Compiled compiled,
                          CompileGraph(loaded.network, loaded.source_map, OpRegistry::Builtin(), options));
    SNUG_ASSIGN_OR_RETURN(PlannedBytes planned, PlanBy(compiled, MemoryOptions()));
    planned.strategy = column.name;
    row->planned.push_back(std::move(planned));
  }
  return absl::OkStatus();
}

bool IsGraphFile(absl::string_view path) { return absl::EndsWith(path, ".graph") || absl::EndsWith(path, ".graph.gz"); }

struct BenchMemoryFlags {
  CompileFlags compile;
  StrategyListFlags strategies{.slow_seconds = 3, .usual = UsualStrategies()};
  std::vector<std::string> batches;
  bool forward = false, train = false, lean = false, plain_sgd = false, json = false, markdown = false;
  std::string html, svg;
};

Flags FlagsOf(BenchMemoryFlags& f) {
  Flags flags(
      "snug bench memory MODEL... [flags]",
      "What a step of each network needs by strategy, all bytes planned before the first step: forward only and in\n"
      "training, beside the lower bound, and beside what eager PyTorch would need for the same network and batch: the\n"
      "most that its tensors have at once in its own order, and what its caching allocator reserves for them, by\n"
      "simulation (docs/memory_tables.md says what is assumed). As text, or for a page with a chart for each network:\n"
      "  snug bench memory models/*.pbtxt --html=memory.html\n"
      "A MODEL may also be a graph of tasks (*.graph, *.graph.gz), in its own order what PyTorch does.");
  flags.Add("batch", &f.batches, "samples in a step, one or several; default 1,32");
  flags.Add("forward", &f.forward, "the forward pass only; default: that and training");
  flags.Add("train", &f.train, "training only");
  flags.Add(
      "lean", &f.lean,
      "with --train: columns of what best takes whole (without the passes by which training needs less as it is), "
      "lean (with --update-as-made too), halves (with --half-byte-indices besides), outputs (with "
      "--gradients-from-outputs besides), blocks (with --loss-in-blocks besides) and swept (lean with "
      "--recompute-sweeps), and what each saves");
  flags.Add("plain-sgd", &f.plain_sgd,
            "train by SGD without momentum, as the measurements of OLLA's paper; default: by what the model file says, "
            "or momentum");
  flags.Add("html", &f.html, "file for the page: it needs no network, and finds and sorts");
  flags.Add("svg", &f.svg, "file for a picture of what best saves in training beside PyTorch");
  flags.Add("markdown", &f.markdown, "print Markdown");
  AddDeviceFlag(flags, &f.compile.device);
  flags.Add("threads", &f.compile.threads, "threads of each op, which may change kernels; default: every processor", 1);
  flags.Add("precision", &f.compile.precision, "float32 (default), bfloat16 or float64; PyTorch's is told for float32");
  f.compile.AddLessMemoryTo(flags);
  f.strategies.AddTo(flags);
  AddJsonFlag(flags, &f.json);
  return flags;
}

absl::StatusOr<std::vector<int64_t>> BatchesOf(const std::vector<std::string>& texts) {
  if (texts.empty()) return std::vector<int64_t>{1, 32};
  std::vector<int64_t> batches;
  for (const std::string& text : texts) {
    if (!absl::SimpleAtoi(text, &batches.emplace_back()) || batches.back() < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--batch: expected whole numbers of at least 1, found \"", text, "\""));
    }
  }
  return batches;
}

}  // namespace

const std::vector<LeanColumn>& LeanColumns() {
  static const std::vector<LeanColumn>& columns =
      *new std::vector<LeanColumn>{{"whole", "best without the passes by which training needs less"},
                                   {"lean", "best with --update-as-made"},
                                   {"halves", "best with --update-as-made and --half-byte-indices"},
                                   {"outputs", "best with these two and --gradients-from-outputs"},
                                   {"blocks", "best with these three and --loss-in-blocks"},
                                   {"swept", "best with --update-as-made and --recompute-sweeps"}};
  return columns;
}

absl::Status AddNetwork(const LoadedNetwork& loaded, const MemoryTableOptions& options,
                        const std::vector<MemoryOptions>& strategies, std::vector<MemoryTableRow>* rows) {
  for (const bool training : {false, true}) {
    if (!(training ? options.training : options.forward)) continue;
    for (const int64_t batch : options.batches) {
      CompileOptions compile = options.compile;
      compile.batch = batch;
      compile.training = training;
      absl::StatusOr<MemoryTableRow> row = RowOf(loaded, compile, strategies);
      if (row.ok() && training && options.lean) {
        const absl::Status added = AddLeanColumns(loaded, compile, &*row);
        if (!added.ok()) row = added;
      }
      if (!row.ok()) {
        return Annotate(row.status(), absl::StrCat(loaded.network.name(), ", batch ", batch, ", ", ModeName(training)));
      }
      rows->push_back(*std::move(row));
    }
  }
  return absl::OkStatus();
}

absl::Status AddGraphFile(const std::string& path, const std::vector<MemoryOptions>& strategies,
                          std::vector<MemoryTableRow>* rows) {
  SNUG_ASSIGN_OR_RETURN(const memory::GraphFile file, memory::ReadGraphFile(path));
  std::filesystem::path name = std::filesystem::path(path).filename();
  while (!name.extension().empty()) name = name.stem();
  MemoryTableRow row{.network = name.string(), .mode = "graph", .planned = {}};
  SNUG_ASSIGN_OR_RETURN(const memory::Requests requests, memory::RequestsOf(file.tasks));
  row.pytorch = BytesOf(requests);
  memory::TaskOrder order(static_cast<size_t>(file.tasks.size()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  for (const MemoryOptions& strategy : strategies) {
    if (strategy.strategy == kDynamicMemory) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": dynamic memory is for networks, not for graphs of tasks"));
    }
    const absl::StatusOr<memory::TaskPlan> plan =
        memory::PlanTasks(file.tasks, order, strategy.strategy, strategy.planner);
    if (!plan.ok()) return Annotate(plan.status(), absl::StrCat(path, ", ", strategy.strategy));
    const memory::SearchReport& report = plan->placement.report;
    row.planned.push_back({.strategy = strategy.strategy,
                           .bytes = plan->placement.plan.arena_bytes,
                           .lower_bound = report.lower_bound,
                           .proven = report.proven,
                           .seconds = report.seconds + plan->ordering.seconds});
  }
  rows->push_back(std::move(row));
  return absl::OkStatus();
}

absl::StatusOr<int> RunBenchMemory(const Arguments& arguments) {
  BenchMemoryFlags f;
  SNUG_ASSIGN_OR_RETURN(const std::vector<std::string> models, FlagsOf(f).Parse(arguments));
  SNUG_RETURN_IF_ERROR(CheckNotRead("html", f.html, models));
  SNUG_RETURN_IF_ERROR(CheckNotRead("svg", f.svg, models));
  if (models.empty()) {
    return absl::InvalidArgumentError("snug bench memory: expected model files, as models/*.pbtxt, found none");
  }
  if (f.json && f.markdown) return absl::InvalidArgumentError("--json and --markdown: expected one of the two");
  if (f.lean && (!f.train || f.forward)) {
    return absl::InvalidArgumentError("--lean: expected --train alone beside it, as it tells of training");
  }
  if (f.lean && f.compile.device != "cpu") {
    return absl::InvalidArgumentError(
        "--lean: the passes that it tells of are for the CPU; leave out --device or --lean");
  }
  if (f.lean && absl::c_any_of(models, IsGraphFile)) {
    return absl::InvalidArgumentError(
        "--lean: expected model files alone, found a graph of tasks, which stays as it is");
  }
  MemoryTableOptions options{.forward = f.forward || !f.train, .training = f.train || !f.forward, .lean = f.lean};
  SNUG_ASSIGN_OR_RETURN(options.compile,
                        SettleCompile(f.compile, f.strategies.streams.count, OptionPlaces::OnCommandLine()));
  SNUG_ASSIGN_OR_RETURN(options.batches, BatchesOf(f.batches));
  proto::Optimizer plain_sgd;
  plain_sgd.mutable_sgd();
  if (f.plain_sgd) options.compile.optimizer = &plain_sgd;

  MemoryTable table;
  for (const std::string& model : models) {
    std::fprintf(stderr, "%s\n", model.c_str());
    if (IsGraphFile(model)) {
      SNUG_ASSIGN_OR_RETURN(const std::vector<MemoryOptions> strategies, f.strategies.Options(LoadedNetwork()));
      SNUG_RETURN_IF_ERROR(AddGraphFile(model, strategies, &table.rows));
      continue;
    }
    SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkFile(model));
    SNUG_ASSIGN_OR_RETURN(std::vector<MemoryOptions> strategies, f.strategies.Options(loaded));
    for (MemoryOptions& strategy : strategies) strategy.memory_limit = 0;  // what does not fit is shown too
    SNUG_RETURN_IF_ERROR(AddNetwork(loaded, options, strategies, &table.rows));
  }
  table.about = absl::StrCat(
      "snug bench memory, ", models.size(), models.size() == 1 ? " network" : " networks",
      f.plain_sgd ? ", SGD without momentum" : "", f.compile.update_as_made ? ", update-as-made" : "",
      f.compile.recompute_sweeps ? ", recompute-sweeps" : "",
      f.compile.gradients_from_outputs ? ", gradients-from-outputs" : "",
      f.compile.loss_in_blocks ? ", loss-in-blocks" : "", f.compile.half_byte_indices ? ", half-byte-indices" : "",
      "; all bytes of a step, parameters and the optimizer's slots included");
  if (!f.html.empty()) SNUG_RETURN_IF_ERROR(memory::WriteTextFile(f.html, MemoryTablePage(table)));
  if (!f.svg.empty()) SNUG_RETURN_IF_ERROR(memory::WriteTextFile(f.svg, SavingsSvg(table)));
  const std::string text = f.json       ? MemoryTableJson(table.rows)
                           : f.markdown ? MemoryTableMarkdown(table.rows)
                                        : MemoryTableText(table.rows);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace snug::core::cli
