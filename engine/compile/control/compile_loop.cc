#include "engine/compile/control/compile_loop.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/types/span.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/control/loop_ports.h"
#include "engine/compile/control/rolled_loop.h"
#include "engine/compile/pipeline.h"
#include "memory/strategies.h"
#include "ops/graph_builder.h"
#include "proto/loops.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

// All inputs and all that is put out lie where the loop says in each round. Outputs that are the same value are one
// buffer, and one that is an input as it is needs none.
std::vector<CallerValue> BoundOf(const Graph& body, const OpRegistry& registry, int64_t alignment) {
  std::vector<CallerValue> bound;
  for (const ValueId input : body.inputs()) bound.push_back({body.value(input).name, input, /*input=*/true});
  const PossibleViews possible(body, registry, alignment);
  const Views views(possible, possible.AllCopied());
  std::set<ValueId> roots(body.inputs().begin(), body.inputs().end());
  for (const Output& output : body.outputs) {
    if (roots.insert(views.RootOf(output.value)).second) bound.push_back({output.name, output.value, /*input=*/false});
  }
  return bound;
}

void NoteCost(const Compiled& body, Node& node) {
  proto::NormalLoop options = node.options.Get<proto::NormalLoop>();
  const Cost all = CostOfBody(body.graph, *body.registry);
  const auto rounds = static_cast<double>(options.rounds());
  options.set_flops(all.flops * rounds);
  options.set_bytes(all.bytes * rounds);
  options.set_multiply_adds(all.multiply_adds * rounds);
  node.options = proto::MakeOptions(options);
}

// Returns the body's inputs that are the same in all rounds, and are among `values` of the graph around the loop.
std::set<ValueId> CapturedOf(const Node& loop, const std::set<ValueId>& values) {
  const auto& options = loop.options.Get<proto::NormalLoop>();
  const std::vector<ValueId>& inputs = loop.subgraphs[0]->inputs();
  std::set<ValueId> captured;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (values.contains(loop.inputs[i])) captured.insert(inputs[i]);
  }
  const auto is_another = [&](int port) { captured.erase(inputs[static_cast<size_t>(port)]); };
  for (const proto::NormalLoop::Carry& carry : options.carry()) is_another(carry.input());
  for (const proto::NormalLoop::Along& scan : options.scan()) is_another(scan.port());
  return captured;
}

// Feeds the node what the inputs read that its body got behind those that it had.
absl::Status FeedReordered(Graph& graph, NodeId loop, const Graph& body, absl::Span<const ReorderedBefore> all,
                           const AroundLoop::Reorder& reorder) {
  const size_t end = graph.node(loop).subgraphs[0]->inputs().size();
  auto with_inputs = std::make_shared<Graph>(*graph.node(loop).subgraphs[0]);
  std::vector<ValueId> feeds;
  for (const ReorderedBefore& one : all) {
    const auto port = absl::c_find(body.inputs(), one.input) - body.inputs().begin();
    const ValueId as_it_is = graph.node(loop).inputs[static_cast<size_t>(port)];
    SNUG_ASSIGN_OR_RETURN(feeds.emplace_back(), reorder(as_it_is, body.type(one.reordered).layout));
    with_inputs->AddInput(body.value(one.reordered).name, body.type(one.reordered));
  }
  Node& node = graph.node(loop);
  node.inputs.insert(node.inputs.begin() + static_cast<int64_t>(end), feeds.begin(), feeds.end());
  node.subgraphs[0] = std::move(with_inputs);
  // Behind what feeds the body there are inputs that the options know by their numbers.
  proto::NormalLoop options = node.options.Get<proto::NormalLoop>();
  const auto moved = [&](int input) {
    return static_cast<size_t>(input) < end ? input : input + static_cast<int>(feeds.size());
  };
  for (proto::NormalLoop::Along& scan : *options.mutable_scan()) {
    if (scan.has_first()) scan.set_first(moved(scan.first()));
  }
  if (options.has_only_rounds()) options.set_only_rounds(moved(options.only_rounds()));
  node.options = proto::MakeOptions(options);
  return absl::OkStatus();
}

absl::string_view StrategyOfBodies(absl::string_view around) {
  const absl::StatusOr<const memory::Strategy*> found = memory::FindStrategy(around);
  return found.ok() && !(*found)->slow ? (*found)->name : memory::kDefaultStrategy;
}

// Gives the node a body that is planned, and the workspace that it takes.
absl::Status SetBody(const Graph& graph, NodeId loop, Compiled body, KernelChoice& choice) {
  std::shared_ptr<const RolledLoop> rolled = RolledLoop::Create(graph, graph.node(loop), std::move(body));
  SNUG_RETURN_IF_ERROR(rolled->Verify());
  choice.workspace_bytes = rolled->workspace_bytes();
  choice.prepared = std::move(rolled);
  return absl::OkStatus();
}

}  // namespace

Cost CostOfBody(const Graph& body, const OpRegistry& registry) {
  Cost all;
  for (NodeId id = body.first_node(); id.valid(); id = body.node(id).next) {
    const Node& node = body.node(id);
    const OpDef& op = registry.Get(node.op);
    if (op.traits.view) continue;
    Cost cost;
    double times = 1;
    if (node.op == "loop" && !node.options.Get<proto::NormalLoop>().has_flops()) {
      cost = CostOfBody(*node.subgraphs[0], registry);
      times = static_cast<double>(node.options.Get<proto::NormalLoop>().rounds());
    } else {
      cost = CostOf(op, TypesOf(body, node));
    }
    all.flops += cost.flops * times;
    all.bytes += cost.bytes * times;
    all.multiply_adds += cost.multiply_adds * times;
  }
  return all;
}

absl::StatusOr<KernelChoice> CompileLoop(Graph& graph, NodeId loop, const OpRegistry& registry,
                                         const AroundLoop& around) {
  const ChooseOptions& options = around.options;
  if (options.device.kind != Device::Kind::kCpu) return absl::InternalError("only the CPU runs loops that are rolled");
  ChooseOptions inside = options;
  inside.keep_derived = false;
  RoundReads reads{.values = CapturedOf(graph.node(loop), around.reads.values)};
  std::vector<ReorderedBefore> reordered;
  // What a branch reads is made in its body, which may not run at all.
  if (!IsBodyOfBranch(graph.node(loop).options.Get<proto::NormalLoop>())) reads.before = &reordered;
  Compiled body{.registry = &registry,
                .device = options.device,
                .training = false,
                .threads = options.threads,
                .graph = *graph.node(loop).subgraphs[0]};
  SNUG_CHECK_MSG(body.graph.variables().empty(), graph.node(loop).name);
  SNUG_ASSIGN_OR_RETURN(body.kernels, ChooseKernelsOfRounds(body.graph, registry, inside, reads));
  SNUG_RETURN_IF_ERROR(FeedReordered(graph, loop, body.graph, reordered, around.reorder));
  body.bound = BoundOf(body.graph, registry, options.device.alignment());
  FindStepTasks(body);
  SNUG_RETURN_IF_ERROR(Annotate(PlanAndLower(body, MemoryOptions()), "the body"));
  KernelChoice choice;
  for (const NodeId id : body.graph.ProgramOrder()) {
    const KernelChoice& of_node = body.kernels[static_cast<size_t>(id.index)];
    for (const PassedOver& row : of_node.passed_over) {
      if (row.reason.cause == NotServed::Cause::kRefused) choice.passed_over.push_back(row);
    }
    choice.varies = choice.varies || of_node.varies;
  }
  NoteCost(body, graph.node(loop));
  choice.kernel = std::make_shared<const KernelRow>(KernelRow{
      .name = "rounds",
      .run = [](const KernelContext& k) { return k.prepared<RolledLoop>().Run(k); },
  });
  SNUG_RETURN_IF_ERROR(SetBody(graph, loop, std::move(body), choice));
  return choice;
}

absl::Status PlanBodies(Compiled& compiled, absl::string_view strategy) {
  const absl::string_view inside = StrategyOfBodies(strategy);
  bool changed = false;
  for (const NodeId id : compiled.graph.ProgramOrder()) {
    KernelChoice& choice = compiled.kernels[static_cast<size_t>(id.index)];
    const RolledLoop* const planned = RolledLoopOf(choice);
    if (planned == nullptr || planned->body().executable.memory.strategy == inside) continue;
    const Node& node = compiled.graph.node(id);
    Compiled body = planned->body();
    absl::Status status = Annotate(PlanAndLower(body, {.strategy = std::string(inside)}), "the body");
    if (status.ok()) status = SetBody(compiled.graph, id, std::move(body), choice);
    if (!status.ok()) return NodeError(node.loc, node.name, node.op, status);
    changed = true;
  }
  if (changed) FindStepTasks(compiled);
  return absl::OkStatus();
}

}  // namespace snug::core
