#include "engine/compile/pipeline.h"

#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/types/span.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/suggest.h"
#include "engine/compile/control/compile_loop.h"
#include "engine/compile/control/normal_form.h"
#include "engine/compile/control/stash.h"
#include "engine/compile/control/stash_limit.h"
#include "engine/compile/control/unroll.h"
#include "engine/compile/defaults.h"
#include "engine/compile/differentiate/differentiate.h"
#include "engine/compile/import/check_optimizer.h"
#include "engine/compile/import/import.h"
#include "engine/compile/kernels/derive.h"
#include "engine/compile/kernels/round_reads.h"
#include "engine/compile/memory/join_launches.h"
#include "engine/compile/memory/plan_file.h"
#include "engine/compile/memory/plan_memory.h"
#include "engine/compile/memory/tasks.h"
#include "engine/compile/memory/views.h"
#include "engine/compile/memory/what_fits.h"
#include "engine/compile/passes/pass.h"
#include "engine/compile/schedule/stages.h"
#include "engine/graph/graph.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

proto::Optimizer DefaultOptimizer() {
  proto::Optimizer optimizer;
  SetDefaultKind(&optimizer);
  return optimizer;
}

absl::Status Observe(const CompileOptions& options, absl::string_view stage, const Graph& graph) {
  if (options.observer) options.observer(stage, graph);
  return Annotate(VerifyGraph(graph), absl::StrCat("after stage ", stage));
}

// Runs a pass on a graph and on the bodies of its loops.
absl::Status RunPass(const Pass& pass, Graph& graph, const OpRegistry& registry) {
  SNUG_RETURN_IF_ERROR(pass.run(graph, registry));
  if (pass.enters_bodies) return absl::OkStatus();
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    for (std::shared_ptr<const Graph>& subgraph : graph.node(id).subgraphs) {
      Graph body = *subgraph;
      SNUG_RETURN_IF_ERROR(RunPass(pass, body, registry));
      subgraph = std::make_shared<const Graph>(std::move(body));
    }
  }
  return absl::OkStatus();
}

absl::Status RunPasses(Graph& graph, const OpRegistry& registry, absl::Span<const Pass> passes, int number,
                       const CompileOptions& options) {
  for (const Pass& pass : passes) {
    if (options.disabled_passes.contains(std::string(pass.name))) continue;
    SNUG_RETURN_IF_ERROR(Annotate(RunPass(pass, graph, registry), absl::StrCat("pass ", pass.name)));
    SNUG_RETURN_IF_ERROR(Observe(options, absl::StrCat(number++, "_", pass.name), graph));
  }
  return absl::OkStatus();
}

absl::StatusOr<ValueId> ValueNamed(const Graph& graph, const std::string& name, absl::string_view purpose) {
  const ValueId id = graph.FindValue(name);
  if (id.valid()) return id;
  Suggester suggester(name);
  for (const NodeId node : graph.ProgramOrder()) {
    for (const ValueId output : graph.node(node).outputs) suggester.Consider(graph.value(output).name);
  }
  return absl::NotFoundError(
      absl::StrCat(purpose, " \"", name, "\": the network has no value of that name", suggester.Question()));
}

// Adds what the caller wants to fetch to the network's own outputs, or puts it in their place.
absl::Status AddFetches(Graph& graph, const CompileOptions& options) {
  if (!options.only.empty()) {
    if (options.training) {
      return absl::InvalidArgumentError("only: expected a forward-only program, as training needs the loss");
    }
    graph.outputs.clear();
    graph.objectives.clear();
    for (const std::string& name : options.only) {
      SNUG_ASSIGN_OR_RETURN(const ValueId value, ValueNamed(graph, name, "only"));
      graph.outputs.push_back({name, value});
    }
  }
  for (const std::string& name : options.fetch) {
    const bool known = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                   [&](const Output& output) { return output.name == name; });
    if (known) continue;
    SNUG_ASSIGN_OR_RETURN(const ValueId value, ValueNamed(graph, name, "fetch"));
    graph.outputs.push_back({name, value});
  }
  return absl::OkStatus();
}

// Makes outputs of the values whose gradients are asked for, so that no pass takes them away before there are
// gradients, which Differentiate puts in their place.
absl::Status AddGradientOutputs(Graph& graph, const CompileOptions& options) {
  for (const std::string& name : options.gradients) {
    SNUG_ASSIGN_OR_RETURN(const ValueId value, ValueNamed(graph, name, "gradient of"));
    graph.outputs.push_back({absl::StrCat("d(", name, ")"), value});
  }
  return absl::OkStatus();
}

DecayOptions DecayOf(const proto::Network& network, const SourceMap& locations, const CompileOptions& options) {
  if (options.no_decay.has_value()) return {options.decay_rule, *options.no_decay, options.no_decay_places};
  const auto& own = network.training().no_decay();
  return {options.decay_rule, {own.begin(), own.end()}, OptionPlaces::InFile(locations)};
}

// Unrolls the loops that are to be; `gradients` follows.
absl::Status UnrollAll(Imported& imported, const OpRegistry& registry, std::unordered_map<ValueId, ValueId>* gradients,
                       const CompileOptions& options) {
  if (!HasControlFlow(imported.graph)) return absl::OkStatus();
  std::vector<ValueId> kept;
  for (const auto& [value, gradient] : *gradients) kept.push_back(gradient);
  for (const NodeSpec& update : imported.statistic_updates) {
    for (const ValueId input : update.inputs) kept.push_back(input);
  }
  std::unordered_map<ValueId, ValueId> replaced;
  SNUG_ASSIGN_OR_RETURN(replaced, UnrollLoops(imported.graph, registry, kept));
  const auto replace = [&replaced](ValueId& value) {
    const auto it = replaced.find(value);
    if (it != replaced.end()) value = it->second;
  };
  for (auto& [value, gradient] : *gradients) replace(gradient);
  for (NodeSpec& update : imported.statistic_updates) {
    for (ValueId& input : update.inputs) replace(input);
  }
  return Observe(options, "35_unroll", imported.graph);
}

absl::StatusOr<std::unordered_map<ValueId, ValueId>> AddGradients(Graph& graph, const OpRegistry& registry,
                                                                  const CompileOptions& options) {
  BackwardOptions backward{.wanted = TrainedParameters(graph)};
  const auto requested = absl::MakeSpan(graph.outputs).last(options.gradients.size());  // by AddGradientOutputs
  for (const Output& output : requested) {
    if (!absl::c_linear_search(backward.wanted, output.value)) backward.wanted.push_back(output.value);
  }
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> gradients;
  SNUG_ASSIGN_OR_RETURN(gradients, AddBackward(builder, backward));
  for (size_t i = 0; i < requested.size(); ++i) {
    const auto it = gradients.find(requested[i].value);
    if (it == gradients.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("gradient of \"", options.gradients[i], "\": no objective depends on it"));
    }
    requested[i].value = it->second;
  }
  SNUG_RETURN_IF_ERROR(Observe(options, "30_backward", graph));
  return gradients;
}

bool HoistsLoopInputs(const CompileOptions& options) {
  return absl::c_none_of(LoopPasses(),
                         [&](const Pass& pass) { return options.disabled_passes.contains(std::string(pass.name)); });
}

// The network with gradients, and with its loops as nodes.
struct Front {
  Imported imported;
  std::vector<LoopChoice> loops;
  std::vector<LoopStash> stashes;
  std::vector<std::string> decay_differs;
  std::unordered_map<ValueId, ValueId> gradients;
  std::vector<TableGradient> tables;
  std::vector<VariableId> read_by_rounds;
};

// If `chunks` is not null, these loops compute rounds anew.
absl::StatusOr<Front> MakeFront(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                                const proto::Optimizer& optimizer, const Chunks* chunks,
                                const CompileOptions& options) {
  Front front;
  SNUG_ASSIGN_OR_RETURN(front.imported, Import(network, locations, registry,
                                               {.batch = options.batch,
                                                .micro_batches = options.training ? options.micro_batches.count : 1,
                                                .training = options.training,
                                                .precision = options.precision,
                                                .stochastic_rounding = options.stochastic_rounding}));
  Graph& graph = front.imported.graph;
  SNUG_RETURN_IF_ERROR(AddFetches(graph, options));
  if (options.training) {
    SNUG_RETURN_IF_ERROR(AddGradientOutputs(graph, options));
    SNUG_ASSIGN_OR_RETURN(front.decay_differs, ApplyDecay(graph, network, DecayOf(network, locations, options)));
  }
  SNUG_RETURN_IF_ERROR(Observe(options, "10_graph", graph));
  if (HasControlFlow(graph)) {
    front.read_by_rounds = ReadByRounds(graph);
    // What is done before a loop is kept for all of its rounds: that is what computing rounds anew is to save. There it
    // is done before each chunk of them (NormalizeControlFlow).
    if (options.recompute_rounds == 0 && chunks == nullptr) {
      SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, LoopPasses(), 11, options));
    }
    SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, CellPasses(), 12, options));
    const LoopRule rule = options.device.kind == Device::Kind::kCuda ? LoopRule::kUnrolled : options.loops;
    SNUG_ASSIGN_OR_RETURN(front.loops, NormalizeControlFlow(front.imported, registry,
                                                            {.training = options.training,
                                                             .rule = rule,
                                                             .recompute_rounds = options.recompute_rounds,
                                                             .chunks = chunks,
                                                             .hoist_from_chunks = HoistsLoopInputs(options),
                                                             .all_bodies = options.stash_limit != 0}));
    SNUG_RETURN_IF_ERROR(Observe(options, "13_normal_form", graph));
  }
  SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, ForwardPasses(), 20, options));
  if (options.device.kind == Device::Kind::kCuda) {
    SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, CudaForwardPasses(), 25, options));
  }
  if (!options.training) return front;
  const bool written = &optimizer == &network.optimizer();
  const OptionPlaces places = written ? OptionPlaces::InFile(locations) : OptionPlaces();
  SNUG_RETURN_IF_ERROR(CheckOptimizer(optimizer, places));
  SNUG_RETURN_IF_ERROR(CheckState(optimizer, options.precision, places));
  SNUG_ASSIGN_OR_RETURN(front.gradients, AddGradients(graph, registry, options));
  front.stashes = StashesOf(graph, registry);
  for (LoopStash& stash : front.stashes) {
    const auto loop = absl::c_find_if(front.loops, [&](const LoopChoice& choice) { return choice.name == stash.loop; });
    if (loop == front.loops.end()) continue;  // a copy of a branch's body, whose name was taken: nothing is said of it
    stash.why_not = loop->why_not;
    loop->stash_bytes = stash.kept;
    loop->chunk_stash_bytes = stash.again + stash.within;
  }
  return front;
}

// What a network's loops keep of their rounds if they keep all, and if all that can compute rounds anew.
struct ProbedStashes {
  std::vector<LoopStash> kept, anew;
  Chunks inside;  // of loops inside others, which both have; empty: those keep all of their rounds
  int64_t least_bytes = 0;
};

// Chunks of about the square root of their rounds for all loops that lie inside of those that have stashes.
Chunks ChunksInside(const std::vector<LoopChoice>& loops, const std::vector<LoopStash>& stashes) {
  Chunks inside;
  for (const LoopChoice& loop : loops) {
    const bool is_inside = absl::c_any_of(
        stashes, [&](const LoopStash& around) { return absl::StartsWith(loop.name, absl::StrCat(around.loop, "/")); });
    const bool is_around = absl::c_any_of(stashes, [&](const LoopStash& stash) { return stash.loop == loop.name; });
    if (is_inside && !is_around) inside[loop.name] = kSquareRoot;
  }
  return inside;
}

// Looks for what keeps the limit of stashes, if there is one. Everything is kept where it fits. Where chunks of the
// outermost loops are not enough, the loops inside have chunks too, whose length is not searched for. That comes last,
// as a round of theirs is computed once more for each loop around it that computes its own anew.
absl::StatusOr<Front> MakeFrontWithinLimit(const proto::Network& network, const SourceMap& locations,
                                           const OpRegistry& registry, const proto::Optimizer& optimizer,
                                           const CompileOptions& options) {
  if (options.stash_limit == 0 || !options.training) {
    return MakeFront(network, locations, registry, optimizer, nullptr, options);
  }
  CompileOptions how = options;
  const auto make = [&](const Chunks* chunks) {
    CompileOptions quiet = how;
    quiet.observer = nullptr;
    return MakeFront(network, locations, registry, optimizer, chunks, quiet);
  };
  const auto probe = [&](const Chunks& inside) -> absl::StatusOr<ProbedStashes> {
    SNUG_ASSIGN_OR_RETURN(const Front kept, make(&inside));
    Chunks chunks = inside;
    for (const LoopStash& stash : kept.stashes) chunks[stash.loop] = kSquareRoot;
    SNUG_ASSIGN_OR_RETURN(const Front anew, make(&chunks));
    ProbedStashes probed{.kept = kept.stashes, .anew = anew.stashes, .inside = inside};
    for (size_t i = 0; i < probed.kept.size() && i < probed.anew.size(); ++i) {
      probed.kept[i].why_not = probed.anew[i].why_not;
    }
    if (probed.kept.size() != probed.anew.size()) return absl::InternalError("stash limit: other loops have chunks");
    probed.least_bytes = LeastStashBytes(probed.kept, probed.anew);
    return probed;
  };
  SNUG_ASSIGN_OR_RETURN(const Front all, make(nullptr));
  if (StashBytes(all.stashes) <= options.stash_limit) {
    return MakeFront(network, locations, registry, optimizer, nullptr, options);
  }
  SNUG_ASSIGN_OR_RETURN(ProbedStashes probed, probe(Chunks()));
  // What is done to all rounds of a chunk at once is there for all of them: a limit that is too small for that may do
  // without.
  if (probed.least_bytes > options.stash_limit && HoistsLoopInputs(options)) {
    for (const Pass& pass : LoopPasses()) how.disabled_passes.insert(std::string(pass.name));
    SNUG_ASSIGN_OR_RETURN(ProbedStashes in_rounds, probe(Chunks()));
    if (in_rounds.least_bytes < probed.least_bytes) {
      probed = std::move(in_rounds);
    } else {
      how = options;
    }
  }
  const Chunks inside = ChunksInside(all.loops, all.stashes);
  if (probed.least_bytes > options.stash_limit && !inside.empty()) {
    SNUG_ASSIGN_OR_RETURN(ProbedStashes deeper, probe(inside));
    if (deeper.least_bytes < probed.least_bytes) probed = std::move(deeper);
  }
  SNUG_ASSIGN_OR_RETURN(Chunks chunks,
                        ChunksWithin(options.stash_limit, probed.kept, probed.anew,
                                     inside.empty() ? ""
                                                    : "of loops inside others, only chunks of about the square root "
                                                      "of their rounds were tried"));
  chunks.insert(probed.inside.begin(), probed.inside.end());
  SNUG_ASSIGN_OR_RETURN(Front chosen, MakeFront(network, locations, registry, optimizer, &chunks, how));
  if (const int64_t bytes = StashBytes(chosen.stashes); bytes > options.stash_limit) {
    return absl::InternalError(absl::StrCat("stash limit: expected at most ", options.stash_limit, " bytes, found ",
                                            bytes, ": other chunks take other bytes than was foreseen"));
  }
  return chosen;
}

// The loops that are to be unrolled, and updates.
absl::Status AddStep(Front& front, const OpRegistry& registry, const proto::Optimizer& optimizer,
                     const CompileOptions& options) {
  SNUG_RETURN_IF_ERROR(UnrollAll(front.imported, registry, &front.gradients, options));
  SNUG_RETURN_IF_ERROR(AddUpdates(front.imported, registry, optimizer, front.gradients,
                                  {.gradient_norm = options.gradient_norm,
                                   .parameter_gradients = options.parameter_gradients,
                                   .micro_batches = options.micro_batches,
                                   .device = options.device,
                                   .sparse_tables = options.sparse_tables},
                                  &front.tables));
  return Observe(options, "40_updates", front.imported.graph);
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

// Of options that are made, and tested, for the CPU.
absl::Status CheckForTheProcessor(const CompileOptions& options) {
  if (options.device.kind == Device::Kind::kCpu || (!options.update_as_made && !options.recompute_sweeps)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(options.update_as_made ? "update-as-made" : "recompute-sweeps",
                                                 ": is for the CPU, found the device ", options.device.ToString()));
}

absl::Status CheckStashLimit(const CompileOptions& options) {
  if (options.stash_limit == 0) return absl::OkStatus();
  if (options.stash_limit < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("stash-limit: expected at least 1 byte, or 0 for none, found ", options.stash_limit));
  }
  if (options.recompute_rounds == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "stash-limit: chooses the rounds that are kept by itself; expected no recompute-rounds");
}

absl::Status CheckRecomputeRounds(const CompileOptions& options) {
  if (options.recompute_rounds >= 0 || options.recompute_rounds == kSquareRoot) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("recompute-rounds: expected a number of rounds, 0 for none or ",
                                                 kSquareRoot, " for about the square root, found ",
                                                 options.recompute_rounds));
}

// Rounds are computed anew by loops that stay one node. Of a straight line, this pass would merge those rounds with the
// first ones, and all would be kept after all.
bool MergesRoundsAnew(const CompileOptions& options) {
  return !options.disabled_passes.contains("common_subexpressions");
}

// Of options that only loops understand that stay one node.
absl::Status CheckForRolledLoops(const CompileOptions& options) {
  const bool anew = options.recompute_rounds != 0 && MergesRoundsAnew(options);
  const absl::string_view name = options.stash_limit != 0 ? "stash-limit" : anew ? "recompute-rounds" : "";
  if (options.device.kind == Device::Kind::kCuda) {
    if (!name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": is for loops that stay one node, found the device ",
                                                     options.device.ToString(), ", where all are unrolled"));
    }
    if (options.loops != LoopRule::kRolled) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("loops: the rule ", LoopRuleName(options.loops),
                                                   " is for the CPU, found the device ", options.device.ToString(),
                                                   ", where all loops are unrolled"));
  }
  if (name.empty() || options.loops != LoopRule::kUnrolled) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": is for loops that stay one node, found the rule ", LoopRuleName(options.loops)));
}

absl::Status CheckPassNames(const CompileOptions& options) {
  const std::vector<std::string> names = PassNames();
  for (const std::string& name : options.disabled_passes) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown pass \"", name, "\"; there are: ", absl::StrJoin(names, ", ")));
    }
  }
  return absl::OkStatus();
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

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const Pass& pass : LoopPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : CellPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : ForwardPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : CudaForwardPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : GradientPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : KeepingPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : ProcessorPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : WholePasses()) names.emplace_back(pass.name);
  for (const Pass& pass : RecomputingPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : LastProcessorPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : PassesAsMade()) names.emplace_back(pass.name);
  for (const Pass& pass : LastKeepingPasses()) names.emplace_back(pass.name);
  for (const Pass& pass : CudaPasses()) names.emplace_back(pass.name);
  return names;
}

absl::StatusOr<Compiled> CompileGraph(const proto::Network& network, const SourceMap& locations,
                                      const OpRegistry& registry, const CompileOptions& options) {
  SNUG_RETURN_IF_ERROR(CheckPassNames(options));
  if (options.keep_derived && options.training) {
    return absl::InvalidArgumentError(
        "keep-derived: expected a forward-only program, as training changes the weights in every step");
  }
  if (options.keep_derived && options.device.kind != Device::Kind::kCpu) {
    return absl::InvalidArgumentError(
        absl::StrCat("keep-derived: is for the CPU, found the device ", options.device.ToString()));
  }
  SNUG_RETURN_IF_ERROR(CheckForTheProcessor(options));
  if (options.stochastic_rounding && options.precision != DType::kBFloat16) {
    return absl::InvalidArgumentError(
        absl::StrCat("stochastic-rounding: expected the precision bfloat16, found ", Name(options.precision)));
  }
  SNUG_RETURN_IF_ERROR(CheckStashLimit(options));
  SNUG_RETURN_IF_ERROR(CheckRecomputeRounds(options));
  SNUG_RETURN_IF_ERROR(CheckForRolledLoops(options));
  const proto::Optimizer fallback = DefaultOptimizer();
  const proto::Optimizer& optimizer = options.optimizer != nullptr ? *options.optimizer
                                      : network.has_optimizer()    ? network.optimizer()
                                                                   : fallback;
  SNUG_ASSIGN_OR_RETURN(Front front, MakeFrontWithinLimit(network, locations, registry, optimizer, options));
  if (options.training) {
    SNUG_RETURN_IF_ERROR(AddStep(front, registry, optimizer, options));
    SNUG_RETURN_IF_ERROR(RunPasses(front.imported.graph, registry, GradientPasses(), 41, options));
    if (optimizer.weight_decay() == 0) front.decay_differs.clear();
  } else {
    SNUG_RETURN_IF_ERROR(UnrollAll(front.imported, registry, &front.gradients, options));
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
  if (options.recompute_sweeps && options.training) {
    SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, RecomputingPasses(), 59, options));
  }
  if (options.training && options.device.kind == Device::Kind::kCpu && !options.plain_kernels) {
    SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, LastProcessorPasses(), 60, options));
  }
  if (options.update_as_made) SNUG_RETURN_IF_ERROR(RunPasses(graph, registry, PassesAsMade(), 60, options));
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
                             .keep_derived = options.keep_derived};
  RoundReads reads;
  for (const VariableId id : front.read_by_rounds) reads.values.insert(graph.variable(id).value);
  SNUG_ASSIGN_OR_RETURN(compiled.kernels, ChooseKernelsOfRounds(graph, registry, choose, reads));
  SNUG_RETURN_IF_ERROR(Observe(options, "70_kernels", graph));
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
