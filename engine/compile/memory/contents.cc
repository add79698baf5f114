#include "engine/compile/memory/contents.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>

#include "engine/base/status.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

using Part = Contents::Part;

// Returns what bytes [begin, begin + bytes) are of a value that consists of `parts`.
std::vector<Part> CutParts(const std::vector<Part>& parts, int64_t begin, int64_t bytes) {
  std::vector<Part> cut;
  for (const Part& part : parts) {
    const int64_t from = std::max(part.begin, begin), to = std::min(part.end, begin + bytes);
    if (from < to) cut.push_back({from - begin, to - begin, part.root, part.from + from - part.begin});
  }
  return cut;
}

// Sorts the parts of a value of so many bytes, and drops them all if some of its bytes are missing.
void Close(int64_t bytes, std::vector<Part>* parts) {
  std::sort(parts->begin(), parts->end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
  int64_t end = 0;
  for (const Part& part : *parts) {
    if (part.begin != end) break;
    end = part.end;
  }
  if (end != bytes) parts->clear();
}

}  // namespace

bool Mutates(const OpDef& op, size_t input) {
  return std::any_of(op.aliases.begin(), op.aliases.end(), [input](const Alias& alias) {
    return alias.kind == Alias::Kind::kMutates && static_cast<size_t>(alias.input) == input;
  });
}

Contents::Contents(const Graph& graph)
    : graph_(graph),
      parts_(graph.value_capacity()),
      position_(graph.node_capacity(), 0),
      changes_(graph.variables().size()) {}

absl::StatusOr<Contents> Contents::Create(const Graph& graph, const OpRegistry& registry,
                                          const std::vector<char>& runs) {
  Contents contents(graph);
  const auto add_root = [&](ValueId value) {
    if (const int64_t bytes = graph.type(value).size_bytes(); bytes > 0) {
      contents.parts(value) = {{.begin = 0, .end = bytes, .root = value}};
    }
  };
  for (const ValueId input : graph.inputs()) add_root(input);
  for (const Variable& variable : graph.variables()) add_root(variable.value);
  int32_t position = 0;
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    const OpDef& op = registry.Get(node.op);
    contents.position_[static_cast<size_t>(id.index)] = ++position;
    const bool run = runs[static_cast<size_t>(id.index)] != 0;
    if (run) {
      for (const ValueId output : node.outputs) add_root(output);
    } else if (const absl::Status status = contents.AddUnrun(node, op); !status.ok()) {
      return NodeError(node.loc, node.name, node.op, status);
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid() || !Mutates(op, i)) continue;
      const VariableId variable = graph.value(node.inputs[i]).variable;
      if (!run || !variable.valid()) {
        return NodeError(node.loc, node.name, node.op,
                         absl::InternalError("changes what is no Variable, or never runs"));
      }
      contents.changes_[static_cast<size_t>(variable.index)].push_back(position);
    }
  }
  return contents;
}

// Adds the contents of a node that runs no kernel.
absl::Status Contents::AddUnrun(const Node& node, const OpDef& op) {
  const NodeTypes types = TypesOf(graph_, node);
  const auto copy = [&](ValueId from, int64_t begin, int64_t bytes) { return CutParts(parts(from), begin, bytes); };
  if (op.traits.view) {
    for (const Alias& alias : op.aliases) {
      if (alias.kind != Alias::Kind::kMustShare) continue;
      const ValueId output = node.outputs[static_cast<size_t>(alias.output)];
      const int64_t bytes = graph_.type(output).size_bytes();
      parts(output) = copy(node.inputs[static_cast<size_t>(alias.input)], 0, bytes);
      Close(bytes, &parts(output));
    }
    return absl::OkStatus();
  }
  if (op.output_in_input != nullptr) {
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const int64_t bytes = graph_.type(node.outputs[o]).size_bytes();
      const std::optional<int64_t> begin = op.output_in_input(types, static_cast<int>(o));
      if (!begin.has_value()) return absl::InternalError("no Step runs it, and its outputs are no ranges of its input");
      parts(node.outputs[o]) = copy(node.inputs[0], *begin, bytes);
      Close(bytes, &parts(node.outputs[o]));
    }
    return absl::OkStatus();
  }
  if (op.input_in_output == nullptr) return absl::InternalError("no Step runs it");
  std::vector<Part>& whole = parts(node.outputs[0]);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const std::optional<int64_t> begin = op.input_in_output(types, static_cast<int>(i));
    if (!begin.has_value()) return absl::InternalError("no Step runs it, and its inputs are no ranges of its output");
    for (Part part : parts(node.inputs[i])) {
      part.begin += *begin;
      part.end += *begin;
      whole.push_back(part);
    }
  }
  Close(graph_.type(node.outputs[0]).size_bytes(), &whole);
  return absl::OkStatus();
}

int32_t Contents::VersionAt(VariableId variable, NodeId node) const {
  const std::vector<int32_t>& changes = changes_[static_cast<size_t>(variable.index)];
  const int32_t position = position_[static_cast<size_t>(node.index)];
  return static_cast<int32_t>(std::lower_bound(changes.begin(), changes.end(), position) - changes.begin());
}

}  // namespace snug::core
