// Joins the gradient of a large parameter with the update that is all that reads it: the gradient, as large as the
// parameter, is then made in blocks of rows that are used at once (ops/optim/update_as_made.cc). Where such parameters
// are most of a network, as in training with small batches, that is the largest part of what the step arena holds.
//
// The joint node reads x and changes the parameter, so it runs after dx, which reads the parameter: x stays until dx is
// made. That pays where x has fewer bytes than the gradient.
#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "ops/kept_types.h"

namespace snug::core {
namespace {

constexpr int64_t kLeastBytes = 4 << 20;  // of the gradient: two blocks

// The prefix of the joint op's name; empty: the node makes no gradient of that kind.
absl::string_view KindOf(const std::string& op) {
  if (op == "dense_grad_weight") return "dense_";
  if (op == "embedding_grad") return "embedding_";
  return "";
}

// What is kept in bfloat16 or in 8 bits is rounded by draws that count the elements of the whole parameter.
bool KeepsNarrow(const Graph& graph, const Node& update) {
  const VariableId parameter = graph.value(update.inputs[0]).variable;
  return absl::c_any_of(update.inputs, [&](ValueId input) {
    if (!input.valid()) return false;
    const VariableId id = graph.value(input).variable;
    const bool kept = id.valid() && (id == parameter || graph.variable(id).slot_of == parameter);
    return kept && IsNarrow(graph.type(input).dtype);
  });
}

}  // namespace

absl::Status UpdateAsMade(Graph& graph, const OpRegistry& registry) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  for (const NodeId id : graph.ProgramOrder()) {
    const absl::string_view kind = KindOf(graph.node(id).op);
    if (kind.empty()) continue;
    const Node gradient = graph.node(id);
    const int64_t bytes = graph.type(gradient.outputs[0]).size_bytes();
    if (bytes < kLeastBytes || bytes <= graph.type(gradient.inputs[0]).size_bytes()) continue;
    const NodeId reader = surroundings.SoleReader(gradient.outputs[0]);
    if (!reader.valid()) continue;
    const Node update = graph.node(reader);
    const std::string op = absl::StrCat(kind, update.op);
    if (registry.Find(op) == nullptr) continue;  // the reader is no update, or one that needs the whole gradient
    if (KeepsNarrow(graph, update)) continue;
    NodeSpec joint{.name = absl::StrCat(gradient.name, "+", update.name),
                   .op = op,
                   .options = update.options,
                   .loc = update.loc,
                   .phase = update.phase};
    for (const ValueId input : update.inputs) {
      if (input == gradient.outputs[0]) {
        joint.inputs.insert(joint.inputs.end(), gradient.inputs.begin(), gradient.inputs.end());
      } else if (input.valid()) {
        joint.inputs.push_back(input);
      }
    }
    graph.SetInsertionPoint(reader);
    SNUG_RETURN_IF_ERROR(builder.Add(std::move(joint)).status());
    graph.SetInsertionPoint(NodeId());
    graph.RemoveNode(reader);
    graph.RemoveNode(id);
  }
  return absl::OkStatus();
}

}  // namespace snug::core
