#include "engine/compile/summary.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <vector>

#include "engine/compile/control/rolled_loop.h"
#include "engine/compile/kernels/derive.h"
#include "engine/compile/pipeline.h"
#include "ops/graph_builder.h"
#include "proto/loops.pb.h"

namespace snug::core {
namespace {

// The text of a loop's body, if the node is one that runs rounds.
std::string BodyText(const Compiled& compiled, NodeId id, std::string (*text_of)(const Compiled&)) {
  const RolledLoop* const loop = RolledLoopOf(compiled.kernels[static_cast<size_t>(id.index)]);
  if (loop == nullptr) return "";
  std::string text = text_of(loop->body());
  if (text.empty()) return "";
  text.pop_back();
  return absl::StrCat("  ", absl::StrReplaceAll(text, {{"\n", "\n  "}}), "\n");
}

}  // namespace

GraphSummary Summarize(const Graph& graph, const OpRegistry& registry) {
  GraphSummary summary;
  std::vector<bool> of_weights(graph.value_capacity());
  for (const Variable& variable : graph.variables()) {
    if (variable.role == VariableRole::kParameter) summary.parameters += variable.type.num_elements();
    of_weights[static_cast<size_t>(variable.value.index)] = HoldsStill(variable.role);
  }
  for (const NodeId id : graph.ProgramOrder()) {
    ++summary.nodes;
    const Node& node = graph.node(id);
    if (node.phase != Phase::kForward) continue;
    const OpDef& op = registry.Get(node.op);
    if (!node.subgraphs.empty()) {  // a loop that stays a node, with values of all its rounds but one's alone
      const GraphSummary body = Summarize(*node.subgraphs[0], registry);
      summary.nodes += body.nodes;
      summary.multiply_adds += static_cast<double>(node.options.Get<proto::NormalLoop>().rounds()) * body.multiply_adds;
      summary.activation_bytes += body.activation_bytes;
      for (const ValueId output : node.outputs) summary.activation_bytes += graph.type(output).size_bytes();
      continue;
    }
    summary.multiply_adds += CostOf(op, TypesOf(graph, node)).multiply_adds;
    // What is made of weights alone, as casts and packed forms are, counts as part of them, not as data that flows.
    const auto of_weight = [&](ValueId v) { return !v.valid() || of_weights[static_cast<size_t>(v.index)]; };
    const bool of_weights_alone =
        !node.inputs.empty() && std::all_of(node.inputs.begin(), node.inputs.end(), of_weight);
    for (const ValueId output : node.outputs) {
      of_weights[static_cast<size_t>(output.index)] = of_weights_alone;
      if (!op.traits.view && !of_weights_alone) summary.activation_bytes += graph.type(output).size_bytes();
    }
  }
  return summary;
}

std::string OrderText(const Compiled& compiled) {
  std::string text;
  int position = 0;
  for (const int32_t task : compiled.executable.memory.step.order) {
    const NodeId id = compiled.tasks.node_of_task[static_cast<size_t>(task)];
    const KernelChoice& choice = compiled.kernels[static_cast<size_t>(id.index)];
    const Node& node = compiled.graph.node(id);
    absl::StrAppend(&text, position++, " ", node.name, " ", node.op, " ", choice.Name(),
                    choice.workspace_bytes == 0 ? "" : absl::StrCat(" workspace ", choice.workspace_bytes), "\n",
                    BodyText(compiled, id, OrderText));
  }
  return text;
}

std::string PassedOverText(const Compiled& compiled) {
  std::string text;
  for (const NodeId id : compiled.graph.ProgramOrder()) {
    const KernelChoice& choice = compiled.kernels[static_cast<size_t>(id.index)];
    const Node& node = compiled.graph.node(id);
    for (const PassedOver& row : choice.passed_over) {
      absl::StrAppend(&text, node.name, " ", node.op, ": not ", row.kernel, ", ", row.reason.why,
                      row.reason.cause == NotServed::Cause::kByDesign ? " (by design)" : "", "; ", choice.Name(),
                      " serves\n");
    }
  }
  return text;
}

std::string PlanText(const Compiled& compiled) {
  const memory::Problem& problem = compiled.executable.memory.step.problem;
  const memory::Plan& plan = compiled.executable.memory.step.placement.plan;
  const std::optional<DynamicMemory>& dynamic = compiled.executable.memory.dynamic;
  std::string text = dynamic.has_value()
                         ? absl::StrCat("no arena; predicted in use ", dynamic->predicted.peak_used_bytes, " bytes\n")
                         : absl::StrCat("arena ", plan.arena_bytes, " bytes\n");
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const memory::Buffer& buffer = problem.buffers[i];
    const std::string place = dynamic.has_value() ? absl::StrCat("block ", dynamic->block_of_buffer[i])
                                                  : absl::StrCat("offset ", plan.offsets[i]);
    absl::StrAppend(&text, buffer.name, ": ", place, ", ", buffer.size_bytes, " bytes, live ", buffer.first, " to ",
                    buffer.last, "\n");
  }
  for (const NodeId id : compiled.graph.ProgramOrder()) {
    const std::string body = BodyText(compiled, id, PlanText);
    if (!body.empty()) absl::StrAppend(&text, "a round of ", compiled.graph.node(id).name, ":\n", body);
  }
  return text;
}

}  // namespace snug::core
