// Joins the gradient of a large parameter with the update that is all that reads it: the gradient, as large as the
// parameter, is then made in blocks of rows that are used at once (ops/optim/update_as_made.cc). Where such parameters
// are most of a network, as in training with small batches, that is the largest part of what the step arena holds.
//
// The joint node reads x and changes the parameter, so it runs after dx, which reads the parameter: x stays until dx is
// made. That pays where x has fewer bytes than the gradient. Where x is a Variable, its own update may run before: such
// gradients stay whole.
//
// A table that a dense layer reads, too, has a gradient to which a list of rows is added (list_rows_of_sums.cc): these
// are added block by block. They come last in the backward pass, so x and dy stay until then: that pays where both
// together have fewer bytes than the gradient.
//
// There are two forms of the pass. The one that always runs takes the gradients that have the same bits made in blocks;
// the one that is an option takes the others too.
#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "ops/kept_types.h"
#include "ops/own_products.h"

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

// Whether a gradient that is made in blocks of rows has the bits that its own node would give it. The rows of a table
// are summed one by one in any case.
bool HasTheSameBits(const Graph& graph, const Node& gradient) {
  if (gradient.op == "embedding_grad") return true;
  const ValueType& dw = graph.type(gradient.outputs[0]);
  for (const ValueId input : gradient.inputs) {
    if (graph.type(input).dtype != dw.dtype) return false;
  }
  if (dw.dtype == DType::kFloat64) return true;  // the reference kernel
  if (dw.dtype != DType::kFloat32) return false;
  const int64_t rows = graph.type(gradient.inputs[1]).num_elements() / dw.shape[0];
  return HasTheBitsOfBlocks(dw.shape[0], dw.shape[1], rows);
}

// Whether the bytes are a Variable's, also as a view of it.
bool IsOfVariable(const Graph& graph, const OpRegistry& registry, ValueId value) {
  while (!graph.value(value).variable.valid()) {
    const NodeId producer = graph.value(value).producer;
    if (!producer.valid() || !registry.Get(graph.node(producer).op).traits.view) return false;
    value = graph.node(producer).inputs[0];
  }
  return true;
}

absl::Status Join(Graph& graph, const OpRegistry& registry, bool exactly) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  for (const NodeId id : graph.ProgramOrder()) {
    const absl::string_view kind = KindOf(graph.node(id).op);
    if (kind.empty()) continue;
    const Node gradient = graph.node(id);
    const int64_t bytes = graph.type(gradient.outputs[0]).size_bytes();
    if (bytes < kLeastBytes || bytes <= graph.type(gradient.inputs[0]).size_bytes()) continue;
    if (exactly && !HasTheSameBits(graph, gradient)) continue;
    NodeId reader = surroundings.SoleReader(gradient.outputs[0]);
    if (!reader.valid()) continue;
    ValueId read = gradient.outputs[0];  // what the update reads
    std::vector<ValueId> made_of = gradient.inputs;
    NodeId addition;
    if (gradient.op == "dense_grad_weight") {
      made_of.resize(4);  // absent: the rows that are added, and their numbers
      if (graph.node(reader).op == "add_listed_rows" && graph.node(reader).inputs[0] == read) {
        addition = reader;
        const Node& sum = graph.node(addition);
        std::copy(sum.inputs.begin() + 1, sum.inputs.end(), made_of.begin() + 2);
        read = sum.outputs[0];
        reader = surroundings.SoleReader(read);
        if (!reader.valid()) continue;
        if (bytes <= graph.type(gradient.inputs[0]).size_bytes() + graph.type(gradient.inputs[1]).size_bytes())
          continue;
      }
    }
    const bool changes =
        absl::c_any_of(made_of, [&](ValueId input) { return input.valid() && IsOfVariable(graph, registry, input); });
    if (changes) continue;
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
      if (input == read) {
        joint.inputs.insert(joint.inputs.end(), made_of.begin(), made_of.end());
      } else if (input.valid()) {
        joint.inputs.push_back(input);
      }
    }
    graph.SetInsertionPoint(reader);
    SNUG_RETURN_IF_ERROR(builder.Add(std::move(joint)).status());
    graph.SetInsertionPoint(NodeId());
    graph.RemoveNode(reader);
    if (addition.valid()) graph.RemoveNode(addition);
    graph.RemoveNode(id);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status UpdateAsMade(Graph& graph, const OpRegistry& registry) { return Join(graph, registry, /*exactly=*/false); }

absl::Status UpdateAsMadeExactly(Graph& graph, const OpRegistry& registry) {
  return Join(graph, registry, /*exactly=*/true);
}

}  // namespace snug::core
