// Folds constants: a node that only reads constants is computed now, by its plain kernel, and its outputs become
// constants (Variables that nothing ever mutates). Nodes with results above a bound stay: folding them would only move
// bytes from the step arena to the state arena.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "ops/kernel_context.h"

namespace snug::core {
namespace {

constexpr int64_t kMaxFoldedBytes = int64_t{1} << 20;

const Variable* ConstantOf(const Graph& graph, ValueId value) {
  if (!value.valid() || !graph.value(value).variable.valid()) return nullptr;
  const Variable& variable = graph.variable(graph.value(value).variable);
  const bool constant = variable.role == VariableRole::kConstant && variable.init.kind == Initializer::Kind::kBytes;
  return constant ? &variable : nullptr;
}

bool Foldable(const Graph& graph, const Node& node, const OpDef& op) {
  if (op.traits.random || op.traits.side_effect || op.traits.view || node.inputs.empty()) return false;
  if (op.plain() == nullptr || op.plain()->prepare != nullptr) return false;  // that one wants a workspace
  int64_t bytes = 0;
  for (const ValueId output : node.outputs) bytes += graph.type(output).size_bytes();
  return bytes <= kMaxFoldedBytes && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
           return !v.valid() || ConstantOf(graph, v) != nullptr;
         });
}

// Kernels need 64-byte aligned bytes.
class AlignedBytes {
 public:
  explicit AlignedBytes(int64_t size) : storage_(static_cast<size_t>(size) + 64, '\0') {}
  explicit AlignedBytes(const std::string& content) : AlignedBytes(static_cast<int64_t>(content.size())) {
    std::copy(content.begin(), content.end(), data());
  }
  char* data() {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + ((address + 63) / 64 * 64 - address);
  }

 private:
  std::vector<char> storage_;
};

absl::StatusOr<std::vector<std::string>> Evaluate(const Graph& graph, const Node& node, const OpDef& op) {
  const NodeTypes types = TypesOf(graph, node);
  std::vector<AlignedBytes> inputs, outputs;
  std::vector<void*> input_pointers, output_pointers;
  inputs.reserve(node.inputs.size());
  for (const ValueId input : node.inputs) {
    inputs.emplace_back(input.valid() ? *ConstantOf(graph, input)->init.bytes : std::string());
    input_pointers.push_back(input.valid() ? inputs.back().data() : nullptr);
  }
  outputs.reserve(node.outputs.size());
  for (const ValueType& output : types.outputs) {
    outputs.emplace_back(output.size_bytes());
    output_pointers.push_back(outputs.back().data());
  }
  SNUG_RETURN_IF_ERROR(
      op.plain()->run(KernelContext(&types, input_pointers, output_pointers, nullptr, nullptr, 1, node.random_id)));
  std::vector<std::string> results;
  for (size_t i = 0; i < outputs.size(); ++i) results.emplace_back(outputs[i].data(), types.outputs[i].size_bytes());
  return results;
}

}  // namespace

absl::Status FoldConstants(Graph& graph, const OpRegistry& registry) {
  std::unordered_map<ValueId, ValueId> replaced;
  for (const NodeId id : graph.ProgramOrder()) {
    for (ValueId& input : graph.node(id).inputs) {
      const auto it = replaced.find(input);
      if (it != replaced.end()) input = it->second;
    }
    const Node node = graph.node(id);
    const OpDef& op = registry.Get(node.op);
    if (!Foldable(graph, node, op)) continue;
    absl::StatusOr<std::vector<std::string>> results = Evaluate(graph, node, op);
    if (!results.ok()) return NodeError(node.loc, node.name, node.op, results.status());
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      auto bytes = std::make_shared<const std::string>(std::move((*results)[i]));
      const VariableId constant =
          graph.AddVariable({.name = absl::StrCat(graph.value(node.outputs[i]).name, "/constant"),
                             .type = graph.type(node.outputs[i]),
                             .role = VariableRole::kConstant,
                             .init = {.kind = Initializer::Kind::kBytes, .bytes = std::move(bytes)},
                             .loc = node.loc});
      replaced[node.outputs[i]] = graph.variable(constant).value;
    }
    graph.RemoveNode(id);
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug::core
