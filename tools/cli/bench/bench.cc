// `snug bench NET` measures how long steps take, forward only and in training, and what memory they need; with --op,
// the kernels of one op, plain against fast; with --scaling, what more threads would do. Whatever is compared runs in
// turn.
#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "engine/base/machine.h"
#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/compile/compile_settings.h"
#include "engine/compile/kernels/tuning.h"
#include "engine/run/observe/step_timer.h"
#include "ops/graph_builder.h"
#include "proto/text_loader.h"
#include "tools/cli/bench/memory.h"
#include "tools/cli/bench/scaling.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/compile_flags.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/memory_flags.h"
#include "tools/cli/flags/optimizer_flags.h"
#include "tools/cli/flags/run_flags.h"

namespace snug::core::cli {
namespace {

struct BenchFlags {
  CompileFlags compile;
  MemoryFlags memory;
  RunFlags run;
  OptimizerFlags optimizer;
  int64_t seed = 0;
  double seconds = 2;
  bool forward = false, train = false, scaling = false, json = false;
  std::string op;
  std::vector<std::string> vary;

  bool both() const { return forward == train; }
};

Flags FlagsOf(BenchFlags& f) {
  Flags flags(
      "snug bench NET [flags]",
      "Times steps on seeded random data, forward only and in training, after some warm-ups: median, processor\n"
      "seconds of all threads, samples a second, planned bytes. --vary compares values of any flag, in turn:\n"
      "  snug bench models/lenet.pbtxt --batch=32 --vary=streams=1,2 --vary=memory=best,none,dynamic\n"
      "--op times the kernels of one op in these steps, plain against fast. --scaling times the ops on one thread and "
      "on\ntwo, and foretells what a step takes on 4 to 128.\n\n`snug bench memory MODEL...` is about bytes: what many "
      "networks need by strategy, beside PyTorch; it has a\nhelp of its own.");
  flags.Add("vary", "FLAG=A,B", "values of another flag to compare; several of them: every combination",
            [&f](const std::string& value) -> absl::Status {
              if (absl::StrContains(value, '=') && value.back() != '=') {
                f.vary.push_back(value);
                return absl::OkStatus();
              }
              return absl::InvalidArgumentError(
                  absl::StrCat("--vary: expected a flag and its values, as streams=1,2, found \"", value, "\""));
            });
  flags.Add("op", &f.op, "time this op's kernels, plain and fast, by node: ms, GFLOP/s, GB/s");
  flags.Add("scaling", &f.scaling,
            "training steps (or --forward) on one thread, two, and --threads if that is more: by op the serial part "
            "(Amdahl), the time on 4 to 128 threads, and what limits it: serial parts or memory");
  f.compile.AddKeepDerivedTo(flags);
  f.compile.AddOnlyTo(flags);
  flags.Add("forward", &f.forward, "the forward pass only; default: that and training steps");
  flags.Add("train", &f.train, "training steps only");
  flags.Add("seconds", &f.seconds, "that a comparison goes on for, at least; default 2");
  flags.Add("seed", &f.seed, "of parameters, data and dropout; default 0");
  f.compile.AddTo(flags);
  f.memory.AddTo(flags);
  f.run.AddTo(flags);
  AddJsonFlag(flags, &f.json);
  f.optimizer.AddTo(flags);
  return flags;
}

// One of the things to compare: the command line, with some flags set to other values.
struct Variant {
  std::string name;  // "streams=2 memory=none"; empty: nothing varies
  Arguments arguments;
};

// A flag or a value that is named twice would be measured once under two names.
absl::Status CheckNamedOnce(const std::vector<std::string>& vary) {
  std::set<std::string> flags;
  for (const std::string& varied : vary) {
    const std::pair<std::string, std::string> flag = absl::StrSplit(varied, absl::MaxSplits('=', 1));
    if (!flags.insert(flag.first).second) {
      return absl::InvalidArgumentError(absl::StrCat("--vary: ", flag.first, " is named twice"));
    }
    std::set<std::string> values;
    for (const absl::string_view value : absl::StrSplit(flag.second, ',')) {
      if (!values.insert(std::string(value)).second) {
        return absl::InvalidArgumentError(absl::StrCat("--vary: ", flag.first, "=", value, " is named twice"));
      }
    }
  }
  return absl::OkStatus();
}

std::vector<Variant> VariantsOf(const Arguments& arguments, const std::vector<std::string>& vary) {
  std::vector<Variant> variants = {{"", arguments}};
  for (const std::string& varied : vary) {
    const std::pair<std::string, std::string> flag = absl::StrSplit(varied, absl::MaxSplits('=', 1));
    std::vector<Variant> next;
    for (const Variant& variant : variants) {
      for (const absl::string_view value : absl::StrSplit(flag.second, ',')) {
        Variant& added = next.emplace_back(variant);
        absl::StrAppend(&added.name, added.name.empty() ? "" : " ", flag.first, "=", value);
        added.arguments.push_back(absl::StrCat("--", flag.first, "=", value));
      }
    }
    variants = std::move(next);
  }
  return variants;
}

class Bench {
 public:
  Bench(const LoadedNetwork& network, const BenchFlags& flags) : network_(network), flags_(flags) {}

  // Makes a timer for a variant's command line.
  absl::StatusOr<std::unique_ptr<StepTimer>> Timer(const Arguments& arguments, bool training, bool plain) const {
    BenchFlags f;
    SNUG_RETURN_IF_ERROR(FlagsOf(f).Parse(arguments).status());
    SNUG_ASSIGN_OR_RETURN(CompileOptions options, f.compile.Options(f.memory.streams.count));
    SNUG_ASSIGN_OR_RETURN(options.memory, f.memory.Options({&network_}));
    SNUG_RETURN_IF_ERROR(f.optimizer.SetIn(network_, &options));
    options.training = training;
    options.plain_kernels |= plain;
    SNUG_ASSIGN_OR_RETURN(SessionOptions session, f.run.Options(f.compile.threads > 0, &options));
    session.seed = static_cast<uint64_t>(f.seed);
    SNUG_ASSIGN_OR_RETURN(Compiled compiled,
                          Compile(network_.network, network_.source_map, OpRegistry::Builtin(), options));
    SayWhatVaries(compiled);
    // What training steps do something with is not in vain because forward passes do nothing with it.
    if (training || f.forward) std::fputs(InVainText(compiled).c_str(), stderr);
    return StepTimer::Create(std::move(compiled), OpRegistry::Builtin(), session);
  }

  absl::Status Run(absl::Span<const std::unique_ptr<StepTimer>> timers) const {
    std::vector<StepTimer*> all;
    for (const auto& timer : timers) all.push_back(timer.get());
    return StepInTurn(all, flags_.seconds * static_cast<double>(all.size()), kLeastSteps);
  }

 private:
  static constexpr int kLeastSteps = 3;
  const LoadedNetwork& network_;
  const BenchFlags& flags_;
};

struct BenchRow {
  std::string variant;
  bool training = false;
  int64_t batch = 0, steps = 0, planned = 0, measured = 0;
  double seconds = 0, cpu_seconds = 0;
  std::vector<Fallback> fallbacks;
};

absl::StatusOr<std::vector<BenchRow>> TimeSteps(const Bench& bench, const std::vector<Variant>& variants,
                                                bool training) {
  std::vector<std::unique_ptr<StepTimer>> timers;
  for (const Variant& variant : variants) {
    absl::StatusOr<std::unique_ptr<StepTimer>> timer = bench.Timer(variant.arguments, training, /*plain=*/false);
    if (!timer.ok()) return variant.name.empty() ? timer.status() : Annotate(timer.status(), variant.name);
    timers.push_back(*std::move(timer));
  }
  SNUG_RETURN_IF_ERROR(bench.Run(timers));
  std::vector<BenchRow> rows;
  for (size_t i = 0; i < timers.size(); ++i) {
    const Session& session = timers[i]->session();
    const Compiled& compiled = session.program(0).compiled();
    rows.push_back({.variant = variants[i].name,
                    .training = training,
                    .batch = compiled.batch,
                    .steps = static_cast<int64_t>(timers[i]->seconds().size()),
                    .planned = compiled.planned_bytes(),
                    .measured = session.state_bytes() + session.step_bytes(),
                    .seconds = timers[i]->MedianSeconds(),
                    .cpu_seconds = timers[i]->MedianCpuSeconds(),
                    .fallbacks = session.fallbacks()});
  }
  return rows;
}

void PrintRows(const std::string& network, bool json, const std::vector<BenchRow>& rows) {
  if (json) {
    Json out;
    out.Object().Key("network").String(network).Key("rows").Array();
    for (const BenchRow& row : rows) {
      out.Object().Key("mode").String(ModeName(row.training)).Key("variant").String(row.variant);
      out.Key("batch").Number(row.batch).Key("steps").Number(row.steps).Key("seconds").Number(row.seconds);
      out.Key("cpu_seconds").Number(row.cpu_seconds);
      out.Key("samples_per_second").Number(static_cast<double>(row.batch) / row.seconds);
      out.Key("planned_bytes").Number(row.planned).Key("measured_bytes").Number(row.measured);
      WriteFallbacks(row.fallbacks, out);
      out.End();
    }
    out.End().End();
    std::puts(out.text().c_str());
    return;
  }
  absl::PrintF("%s; medians, variants in turn; MB = 10^6 bytes\n\n%-9s %6s %7s %10s %10s %12s %12s  %s\n", network,
               "mode", "batch", "steps", "step ms", "CPU ms", "samples/s", "planned MB", "variant");
  for (const BenchRow& row : rows) {
    absl::PrintF("%-9s %6d %7d %10.3f %10.3f %12.1f %12.3f  %s\n", ModeName(row.training), row.batch, row.steps,
                 row.seconds * 1e3, row.cpu_seconds * 1e3, static_cast<double>(row.batch) / row.seconds,
                 static_cast<double>(row.planned) * 1e-6, row.variant);
  }
}

// The kernels of one op on equal types: what they do, and how long they take.
struct KernelRow {
  std::string key, node;
  int64_t nodes = 0;
  double fast = 0, plain = 0;  // seconds of all these nodes
  Cost cost;                   // the sum over all of them
};

absl::StatusOr<std::vector<KernelRow>> TimeKernels(const Bench& bench, const Arguments& arguments,
                                                   const std::string& op, bool training) {
  std::vector<std::unique_ptr<StepTimer>> timers;
  for (const bool plain : {false, true}) {
    SNUG_ASSIGN_OR_RETURN(timers.emplace_back(), bench.Timer(arguments, training, plain));
    timers.back()->TimeKernels();
  }
  SNUG_RETURN_IF_ERROR(bench.Run(timers));
  const auto program = [&](size_t i) -> const Compiled& { return timers[i]->session().compiled(); };
  std::map<std::string, size_t> row_of_node, row_of_key;
  std::vector<KernelRow> rows;
  for (const bool plain : {true, false}) {  // plain comes first, because its types are the graph's own, without packed
                                            // layouts
    const Compiled& compiled = program(plain ? 1 : 0);
    const std::vector<double> seconds = timers[plain ? 1 : 0]->MedianKernelSeconds();
    for (size_t i = 0; i < seconds.size(); ++i) {
      const Step& step = compiled.executable.steps[i];
      const NodeId wanted = compiled.kernels[static_cast<size_t>(step.node.index)].inserted_for;
      const Node& node = compiled.graph.node(wanted.valid() ? wanted : step.node);  // a reorder or cast counts for the
                                                                                    // node that wanted it
      if (node.op != op) continue;
      if (!plain) {
        if (const auto it = row_of_node.find(node.name); it != row_of_node.end()) rows[it->second].fast += seconds[i];
        continue;
      }
      const auto [it, is_new] = row_of_key.emplace(TuningKey(node.op, step.types, /*kept_inputs=*/{}), rows.size());
      if (is_new) rows.push_back({.key = it->first, .node = node.name});
      KernelRow& row = rows[it->second];
      row_of_node[node.name] = it->second;
      const Cost cost = CostOf(OpRegistry::Builtin().Get(op), step.types);
      ++row.nodes;
      row.plain += seconds[i];
      row.cost.flops += cost.flops;
      row.cost.bytes += cost.bytes;
    }
  }
  if (!rows.empty()) return rows;
  std::vector<std::string> ops;
  for (const Step& step : program(1).executable.steps) {
    const std::string& name = program(1).graph.node(step.node).op;
    if (!absl::c_linear_search(ops, name)) ops.push_back(name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--op: no node of these steps is a \"", op, "\"; there are: ", absl::StrJoin(ops, ", ")));
}

void PrintKernels(const std::string& network, const std::string& op, bool json, const std::vector<KernelRow>& rows) {
  const auto giga = [](double amount, double seconds) { return seconds > 0 ? amount / seconds * 1e-9 : 0; };
  if (json) {
    Json out;
    out.Object().Key("network").String(network).Key("op").String(op).Key("rows").Array();
    for (const KernelRow& row : rows) {
      out.Object().Key("for").String(row.key).Key("node").String(row.node).Key("nodes").Number(row.nodes);
      out.Key("seconds").Number(row.fast).Key("plain_seconds").Number(row.plain);
      out.Key("flops").Number(row.cost.flops).Key("bytes").Number(row.cost.bytes);
      out.Key("gflops_per_second").Number(giga(row.cost.flops, row.fast));
      out.Key("gb_per_second").Number(giga(row.cost.bytes, row.fast)).End();
    }
    out.End().End();
    std::puts(out.text().c_str());
    return;
  }
  absl::PrintF("%s, op %s; all nodes on equal types together, medians\n\n%10s %10s %10s %8s %6s  %s\n", network, op,
               "ms", "plain ms", "GFLOP/s", "GB/s", "nodes", "on");
  for (const KernelRow& row : rows) {
    absl::PrintF("%10.4f %10.4f %10.1f %8.1f %6d  %s\n", row.fast * 1e3, row.plain * 1e3,
                 giga(row.cost.flops, row.fast), giga(row.cost.bytes, row.fast), row.nodes, row.key);
  }
}

}  // namespace

absl::StatusOr<int> RunBench(const Arguments& arguments) {
  if (!arguments.empty() && arguments[0] == "memory") {
    return RunBenchMemory(Arguments(arguments.begin() + 1, arguments.end()));
  }
  BenchFlags f;
  SNUG_ASSIGN_OR_RETURN(const std::string file, FlagsOf(f).ParseOne(arguments, "a model file"));
  if (f.seconds < 0) return absl::InvalidArgumentError(absl::StrCat("--seconds: expected seconds, found ", f.seconds));
  if (!f.op.empty() && !f.vary.empty()) {
    return absl::InvalidArgumentError("--op compares fast kernels with plain ones: expected no --vary beside it");
  }
  SNUG_ASSIGN_OR_RETURN(const Device device, SettleDevice(f.compile.device, OptionPlaces::OnCommandLine()));
  if (!f.op.empty() && device.kind != Device::Kind::kCpu) {
    return absl::InvalidArgumentError(
        "--op compares fast kernels with plain ones on the processor: expected --device=cpu; on a GPU `snug step "
        "--profile` times ops, with --plain-kernels and without");
  }
  if (f.scaling && !(f.op.empty() && f.vary.empty())) {
    return absl::InvalidArgumentError(
        "--scaling compares numbers of threads: expected neither --op nor --vary beside it");
  }
  if (f.scaling && (f.memory.streams.count > 1 || device.kind != Device::Kind::kCpu)) {
    return absl::InvalidArgumentError(
        "--scaling is about the processor's threads within ops: expected --device=cpu and --streams=1");
  }
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkFile(file));
  const Bench bench(loaded, f);
  if (f.scaling) {
    const auto timer = [&](int threads) {
      Arguments on_threads = arguments;
      on_threads.push_back(absl::StrCat("--threads=", threads));
      return bench.Timer(on_threads, !f.forward, /*plain=*/false);
    };
    const int most = f.compile.threads > 0 ? static_cast<int>(f.compile.threads) : AvailableProcessors();
    SNUG_RETURN_IF_ERROR(BenchScaling(loaded.network.name(), timer, most, f.seconds, f.json));
    return 0;
  }
  if (!f.op.empty()) {
    SNUG_ASSIGN_OR_RETURN(const std::vector<KernelRow> rows, TimeKernels(bench, arguments, f.op, !f.forward));
    PrintKernels(loaded.network.name(), f.op, f.json, rows);
    return 0;
  }
  SNUG_RETURN_IF_ERROR(f.compile.CheckForwardOnly(f.forward));
  SNUG_RETURN_IF_ERROR(f.optimizer.CheckForwardOnly(f.forward && !f.train));
  SNUG_RETURN_IF_ERROR(CheckNamedOnce(f.vary));
  const std::vector<Variant> variants = VariantsOf(arguments, f.vary);
  std::vector<BenchRow> rows;
  for (const bool training : {false, true}) {
    if (!f.both() && training != f.train) continue;
    SNUG_ASSIGN_OR_RETURN(const std::vector<BenchRow> more, TimeSteps(bench, variants, training));
    rows.insert(rows.end(), more.begin(), more.end());
  }
  PrintRows(loaded.network.name(), f.json, rows);
  return 0;
}

}  // namespace snug::core::cli
