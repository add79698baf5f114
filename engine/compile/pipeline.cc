#include "engine/compile/pipeline.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/check_options.h"
#include "engine/compile/control/compile_loop.h"
#include "engine/compile/control/rolled_loop.h"
#include "engine/compile/defaults.h"
#include "engine/compile/differentiate/differentiate.h"
#include "engine/compile/front.h"
#include "engine/compile/front_within_limit.h"
#include "engine/compile/kernels/derive.h"
#include "engine/compile/kernels/round_reads.h"
#include "engine/compile/memory/join_launches.h"
#include "engine/compile/memory/plan_file.h"
#include "engine/compile/memory/plan_memory.h"
#include "engine/compile/memory/tasks.h"
#include "engine/compile/memory/views.h"
#include "engine/compile/memory/what_fits.h"
#include "engine/compile/passes/pass.h"
#include "engine/compile/passes/run_passes.h"
#include "engine/compile/schedule/stages.h"
#include "engine/graph/graph.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

// Says whether any product is put together from pieces, also in the bodies of loops.
bool SplitProducts(const Compiled& compiled) {
  return absl::c_any_of(compiled.kernels, [](const KernelChoice& choice) {
    const RolledLoop* const loop = RolledLoopOf(choice);
    return choice.choice == "split" || (loop != nullptr && SplitProducts(loop->body()));
  });
}

constexpr char kTuning[] = "tuning";

// Tells whether a tuning names kernels, and no node took one. Within loops nobody counts them.
bool TunedInVain(const Compiled& compiled) {
  return compiled.tuning != nullptr && !compiled.tuning->kernels.empty() && compiled.loops.empty() &&
         absl::c_all_of(compiled.kernels, [](const KernelChoice& kernel) { return kernel.choice.empty(); });
}

// Those of the options that may give other last bits, but for precisions, threads and tunings, which everyone asks for
// by themselves, with what a tuning chooses. What was in vain changes nothing.
std::vector<std::string> OptionsOfRounding(const CompileOptions& options, const std::vector<std::string>& in_vain) {
  const std::pair<bool, const char*> switches[] = {{options.plain_kernels, "plain-kernels"},
                                                   {options.fast, "fast"},
                                                   {options.tf32, "tf32"},
                                                   {options.split_products, "split-products"},
                                                   {options.update_as_made, "update-as-made"},
                                                   {options.gradients_from_outputs, "gradients-from-outputs"},
                                                   {options.loss_in_blocks, "loss-in-blocks"}};
  std::vector<std::string> given;
  for (const auto& [on, name] : switches) {
    if (on && !absl::c_linear_search(in_vain, name)) given.emplace_back(name);
  }
  std::vector<std::string> disabled;
  for (const std::string& pass : options.disabled_passes) {
    if (options.tuning == nullptr || !options.tuning->disabled_passes.contains(pass)) disabled.push_back(pass);
  }
  if (!disabled.empty()) given.push_back(absl::StrCat("disable-passes=", absl::StrJoin(disabled, ",")));
  return given;
}

proto::Optimizer DefaultOptimizer() {
  proto::Optimizer optimizer;
  SetDefaultKind(&optimizer);
  return optimizer;
}

// The sequence of long sums, the loops that are to be unrolled, and updates.
absl::Status AddStep(Front& front, const OpRegistry& registry, const CompileOptions& options) {
  SNUG_RETURN_IF_ERROR(RunPasses(front.imported.graph, registry, SequencePasses(), 31, options));
  SNUG_RETURN_IF_ERROR(UnrollAll(front, registry, options));
  SNUG_RETURN_IF_ERROR(AddUpdates(front.imported, registry, front.updates, front.gradients,
                                  {.gradient_norm = options.gradient_norm,
                                   .parameter_gradients = options.parameter_gradients,
                                   .micro_batches = options.micro_batches,
                                   .device = options.device,
                                   .sparse_tables = options.sparse_tables},
                                  &front.tables));
  return Observe(options, "40_updates", front.imported.graph);
}

// Every pass that changes a graph, or the body of a loop, adds nodes to it.
size_t NodesEver(const Graph& graph) {
  size_t count = graph.node_capacity();
  for (const NodeId id : graph.ProgramOrder()) {
    for (const auto& body : graph.node(id).subgraphs) count += NodesEver(*body);
  }
  return count;
}

// Takes out of a forward-only program what follows from Variables alone.
void Derive(Compiled& compiled) {
  Derivation derivation = TakeOutDerived(compiled.graph, *compiled.registry, compiled.kernels);
  if (derivation.graph.num_nodes() == 0) return;
  compiled.derivation = std::make_shared<Compiled>(Compiled{.registry = compiled.registry,
                                                            .device = compiled.device,
                                                            .batch = compiled.batch,
                                                            .training = false,
                                                            .precision = compiled.precision,
                                                            .threads = compiled.threads,
                                                            .tuning = compiled.tuning,
                                                            .graph = std::move(derivation.graph),
                                                            .kernels = std::move(derivation.kernels)});
  Compiled& derived = *compiled.derivation;
  for (const Output& output : derived.graph.outputs) derived.bound.push_back({output.name, output.value});
  FindStepTasks(derived);
}

}  // namespace

int64_t Compiled::planned_bytes() const {
  const int64_t step = executable.memory.step_bytes();
  const int64_t derivation_step = derivation == nullptr ? 0 : derivation->executable.memory.step_bytes();
  const bool apart = executable.memory.dynamic.has_value();  // blocks, beside the arena of the derivation
  return executable.memory.state_plan.arena_bytes + (apart ? step + derivation_step : std::max(step, derivation_step));
}

void FindStepTasks(Compiled& compiled) {
  const int64_t alignment = compiled.device.alignment();
  const Views views = ChooseViews(compiled.graph, *compiled.registry, compiled.kernels, alignment, compiled.keep_inputs,
                                  compiled.bound);
  compiled.tasks = FindTasks(compiled.graph, *compiled.registry, compiled.kernels, views, alignment,
                             compiled.keep_inputs, compiled.bound);
}

std::string InVainText(const Compiled& compiled) {
  std::string text;
  for (const std::string& option : compiled.in_vain) {
    absl::StrAppend(&text, "--", option,
                    option == kTuning ? ": none of its kernels is for a node here: it was made of another network, or "
                                        "with other flags, such as --keep-derived\n"
                                      : " changes nothing in this network: docs/memory.md says what it asks for\n");
  }
  return text;
}

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const Pass& pass : LoopPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : CellPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : ForwardPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : SequencePasses()) names.emplace_back(pass.name);
  for (const Pass& pass : GradientPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : KeepingPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : ProcessorPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : WholePasses()) names.emplace_back(pass.name);
  for (const Pass& pass : LossPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : RecomputingPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : OutputPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : IndexPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : LastProcessorPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : PassesAsMade()) names.emplace_back(pass.name);
  for (const Pass& pass : LastKeepingPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : CudaPasses()) names.emplace_back(pass.name);
  return names;
}

absl::StatusOr<Compiled> CompileGraph(const proto::Network& network, const SourceMap& locations,
                                      const OpRegistry& registry, const CompileOptions& options) {
  SNUG_RETURN_IF_ERROR(CheckCompileOptions(options));
  const proto::Optimizer fallback = DefaultOptimizer();
  const proto::Optimizer& optimizer = options.optimizer != nullptr ? *options.optimizer
                                      : network.has_optimizer()    ? network.optimizer()
                                                                   : fallback;
  // 10_graph to 30_backward.
  SNUG_ASSIGN_OR_RETURN(Front front, MakeFrontWithinLimit(network, locations, registry, optimizer, options));
  if (options.training) {
    SNUG_RETURN_IF_ERROR(AddStep(front, registry, options));
    SNUG_RETURN_IF_ERROR(RunPasses(front.imported.graph, registry, GradientPasses(), 41, options));
    const bool decays = std::any_of(front.updates.begin(), front.updates.end(),
                                    [](const UpdateGroup& group) { return group.optimizer->weight_decay() != 0; });
    if (!decays) front.decay_differs.clear();
  } else {
    SNUG_RETURN_IF_ERROR(UnrollAll(front, registry, options));
  }
  Compiled compiled{.registry = &registry,
                    .device = options.device,
                    .batch = front.imported.batch,
                    .training = options.training,
                    .micro_batches = options.micro_batches,
                    .precision = options.precision,
                    .stochastic_rounding = options.stochastic_rounding,
                    .threads = options.threads,
                    .keep_inputs = options.keep_inputs,
                    .tuning = options.tuning,
                    .loops = std::move(front.loops),
                    .decay_rule = options.decay_rule,
                    .decay_differs = std::move(front.decay_differs),
                    .tables = std::move(front.tables),
                    .graph = std::move(front.imported.graph)};
  Graph& graph = compiled.graph;
  if (options.keep_derived) {
    SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, KeepingPasses(), 45, options));
  }
  if (options.training && options.device.kind == Device::Kind::kCpu) {
    CompileOptions passes = options;
    // Batch norm and silu are done again, where sweeps are, as the two ops that they are.
    if (options.recompute_sweeps) passes.disabled_passes.insert("fuse_batch_norm_silu");
    SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, ProcessorPasses(), 46, passes));
  }
  SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, WholePasses(), 50, options));
  const auto run_asked = [&](bool asked, const char* option, absl::Span<const Pass> passes,
                             int number) -> absl::Status {
    if (!asked) return absl::OkStatus();
    const size_t before = NodesEver(graph);
    if (options.training) SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, passes, number, options));
    if (NodesEver(graph) == before) compiled.in_vain.emplace_back(option);
    return absl::OkStatus();
  };
  SNUG_RETURN_IF_ERROR(run_asked(options.loss_in_blocks, "loss-in-blocks", LossPasses(), 59));
  SNUG_RETURN_IF_ERROR(run_asked(options.recompute_sweeps, "recompute-sweeps", RecomputingPasses(), 59));
  SNUG_RETURN_IF_ERROR(run_asked(options.gradients_from_outputs, "gradients-from-outputs", OutputPasses(), 59));
  SNUG_RETURN_IF_ERROR(run_asked(options.half_byte_indices, "half-byte-indices", IndexPasses(), 59));
  if (options.training && options.device.kind == Device::Kind::kCpu && !options.plain_kernels) {
    CompileOptions passes = options;
    // Products of pieces save more than the sweep that the pass saves, and are made as a whole. So the pass is off: for
    // depthwise convolutions, too, which it would help a little.
    if (options.split_products) passes.disabled_passes.insert("sum_in_convolution");
    SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, LastProcessorPasses(), 60, passes));
  }
  if (options.update_as_made) SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, PassesAsMade(), 60, options));
  if (!options.training) {  // these are about updates, of which there are none then
    if (options.update_as_made) compiled.in_vain.emplace_back("update-as-made");
    if (!options.sparse_tables.patterns.empty()) compiled.in_vain.emplace_back("sparse-tables");
  }
  compiled.summary = Summarize(graph, registry);  // before passes add to it what the network does not need: padding
  if (options.keep_derived) {
    SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, LastKeepingPasses(), 60, options));
  }
  if (options.device.kind == Device::Kind::kCuda) {
    SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, CudaPasses(), 60, options));
    compiled.summary.nodes = Summarize(graph, registry).nodes;
  }
  const ChooseOptions choose{.device = options.device,
                             .threads = options.threads,
                             .tuning = options.tuning.get(),
                             .list_choices = options.list_choices,
                             .plain_kernels = options.plain_kernels,
                             .fast = options.fast,
                             .tf32 = options.tf32,
                             .split_products = options.split_products,
                             .keep_derived = options.keep_derived};
  RoundReads reads;
  for (const VariableId id : front.read_by_rounds) reads.values.insert(graph.variable(id).value);
  SNUG_ASSIGN_OR_RETURN(compiled.kernels, ChooseKernelsOfRounds(graph, registry, choose, reads));
  SNUG_RETURN_IF_ERROR(Observe(options, "70_kernels", graph));
  if (options.split_products && !SplitProducts(compiled)) compiled.in_vain.emplace_back("split-products");
  if (TunedInVain(compiled)) compiled.in_vain.emplace_back(kTuning);
  compiled.rounding = OptionsOfRounding(options, compiled.in_vain);
  if (options.keep_derived) {
    Derive(compiled);
    SNUG_RETURN_IF_ERROR(Observe(options, "71_keep_derived", graph));
    if (compiled.derivation != nullptr) {
      SNUG_RETURN_IF_ERROR(Observe(options, "72_derivation", compiled.derivation->graph));
    }
  }
  SNUG_ASSIGN_OR_RETURN(compiled.bound, FindCallerValues(graph, registry, options.device.alignment(), options.bound));
  FindStepTasks(compiled);
  SNUG_RETURN_IF_ERROR(PlanBodies(compiled, options.memory.strategy));
  return compiled;
}

namespace {

absl::Status PlanDerivation(Compiled& compiled, int64_t memory_limit) {
  SNUG_RETURN_IF_ERROR(Annotate(PlanAndLower(*compiled.derivation, MemoryOptions()), "keep derived"));
  if (memory_limit == 0 || compiled.planned_bytes() <= memory_limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "memory takes ", compiled.planned_bytes(), " bytes while what follows from the weights is computed, ",
      "the limit is ", memory_limit, "; it takes less without keep-derived"));
}

}  // namespace

absl::Status PlanAndLower(Compiled& compiled, const MemoryOptions& options) {
  std::string strategy = options.strategy;
  if (!options.plan_file.empty()) {
    SNUG_ASSIGN_OR_RETURN(strategy, StrategyOfPlan(options.plan_file));
  }
  SNUG_RETURN_IF_ERROR(PlanBodies(compiled, strategy));
  absl::StatusOr<MemoryPlan> plan =
      options.plan_file.empty()
          ? PlanMemory(compiled.tasks, GivenOrder(compiled.graph, compiled.tasks), compiled.device, options)
          : LoadPlan(compiled, options.plan_file);
  if (!plan.ok()) return plan.status();
  const bool planned_here = options.plan_file.empty() && !plan->dynamic.has_value();
  if (planned_here && compiled.device.kind == Device::Kind::kCuda) {
    if (options.streams == 1) BringCastsForward(compiled, &*plan);
    PutOffUpdates(compiled, options.streams, &*plan);
  }
  SNUG_RETURN_IF_ERROR(CheckMemoryLimit(*plan, options.memory_limit));
  compiled.executable =
      Lower(compiled.graph, compiled.kernels, compiled.tasks, *std::move(plan), compiled.bound, compiled.threads);
  SNUG_RETURN_IF_ERROR(ScheduleSteps(compiled.tasks, options.streams, compiled.executable));
  SNUG_RETURN_IF_ERROR(
      Annotate(VerifyExecutable(compiled), options.plan_file.empty()
                                               ? absl::StrCat("the plan by ", compiled.executable.memory.strategy)
                                               : options.plan_file));
  return compiled.derivation == nullptr ? absl::OkStatus() : PlanDerivation(compiled, options.memory_limit);
}

absl::StatusOr<Compiled> Compile(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                                 const CompileOptions& options) {
  SNUG_ASSIGN_OR_RETURN(Compiled compiled, CompileGraph(network, locations, registry, options));
  const absl::Status planned = PlanAndLower(compiled, options.memory);
  if (absl::IsResourceExhausted(planned) && options.memory.strategy == kDynamicMemory) {
    return absl::ResourceExhaustedError(
        absl::StrCat(planned.message(), WhatFits(network, locations, registry, options, compiled)));
  }
  SNUG_RETURN_IF_ERROR(planned);
  return compiled;
}

}  // namespace snug::core
