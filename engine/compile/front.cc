#include "engine/compile/front.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/types/span.h>

#include <algorithm>

#include "engine/base/status.h"
#include "engine/base/text/suggest.h"
#include "engine/compile/control/normal_form.h"
#include "engine/compile/control/unroll.h"
#include "engine/compile/differentiate/differentiate.h"
#include "engine/compile/import/check_optimizer.h"
#include "engine/compile/import/decay.h"
#include "engine/compile/kernels/round_reads.h"
#include "engine/compile/passes/pass.h"
#include "engine/compile/passes/run_passes.h"
#include "engine/compile/pipeline.h"
#include "ops/graph_builder.h"
#include "proto/network.pb.h"
#include "proto/option_places.h"

namespace snug::core {
namespace {

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

// Adds the backward pass of each update at the end of its turn.
absl::StatusOr<std::unordered_map<ValueId, ValueId>> AddGradientsInTurn(Graph& graph, const SourceMap& locations,
                                                                        const OpRegistry& registry,
                                                                        std::vector<UpdateGroup>& groups) {
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> gradients;
  for (size_t k = 0; k < groups.size(); ++k) {
    const auto first = static_cast<int32_t>(graph.node_capacity());
    std::unordered_map<ValueId, ValueId> of_group;
    SNUG_ASSIGN_OR_RETURN(of_group, AddBackward(builder, {.wanted = groups[k].parameters, .group = &groups[k]}));
    for (const ValueId parameter : groups[k].parameters) {
      const auto it = of_group.find(parameter);
      if (it == of_group.end()) {
        return At(locations.UpdateLoc(static_cast<int>(k)),
                  absl::InvalidArgumentError(absl::StrCat("update: parameter \"", graph.value(parameter).name,
                                                          "\": expected one that an objective of this update depends "
                                                          "on; none does")));
      }
      gradients.insert(*it);
    }
    // A turn without layers of its own begins here.
    const bool begins = k > 0 && groups[k - 1].before == groups[k].before;
    for (size_t j = k; begins && j-- > 0 && groups[j].before == groups[k].before;) groups[j].before = NodeId{first};
  }
  return gradients;
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
  return gradients;
}

}  // namespace

bool HoistsLoopInputs(const CompileOptions& options) {
  return absl::c_none_of(LoopPasses(),
                         [&](const Pass& pass) { return options.disabled_passes.contains(std::string(pass.name)); });
}

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
    SNUG_RETURN_IF_ERROR(CheckUpdatesInTurn(network, locations, graph, options));
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
  if (!options.training) return front;
  const bool written = &optimizer == &network.optimizer();
  const OptionPlaces places = written ? OptionPlaces::InFile(locations) : OptionPlaces();
  SNUG_RETURN_IF_ERROR(CheckOptimizer(optimizer, places));
  SNUG_RETURN_IF_ERROR(CheckState(optimizer, options.precision, places));
  SNUG_ASSIGN_OR_RETURN(front.updates,
                        FindUpdateGroups(front.imported, network, locations, optimizer, options.precision));
  SNUG_RETURN_IF_ERROR(PutInTurn(front.imported, locations, front.updates));
  SNUG_ASSIGN_OR_RETURN(front.gradients, network.update_size() > 0
                                             ? AddGradientsInTurn(graph, locations, registry, front.updates)
                                             : AddGradients(graph, registry, options));
  SNUG_RETURN_IF_ERROR(Observe(options, "30_backward", graph));
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

absl::Status UnrollAll(Front& front, const OpRegistry& registry, const CompileOptions& options) {
  Imported& imported = front.imported;
  if (!HasControlFlow(imported.graph)) return absl::OkStatus();
  std::vector<ValueId> kept;
  for (const auto& [value, gradient] : front.gradients) kept.push_back(gradient);
  for (const NodeSpec& update : imported.statistic_updates) {
    for (const ValueId input : update.inputs) kept.push_back(input);
  }
  std::unordered_map<ValueId, ValueId> replaced;
  SNUG_ASSIGN_OR_RETURN(replaced, UnrollLoops(imported.graph, registry, kept));
  const auto replace = [&replaced](ValueId& value) {
    const auto it = replaced.find(value);
    if (it != replaced.end()) value = it->second;
  };
  for (auto& [value, gradient] : front.gradients) replace(gradient);
  for (UpdateGroup& group : front.updates) {
    for (ValueId& objective : group.objectives) replace(objective);
  }
  for (NodeSpec& update : imported.statistic_updates) {
    for (ValueId& input : update.inputs) replace(input);
  }
  return Observe(options, "35_unroll", imported.graph);
}

}  // namespace snug::core
