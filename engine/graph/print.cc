#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include "engine/graph/graph.h"

namespace snug::core {
namespace {

absl::string_view RoleName(VariableRole role) {
  switch (role) {
    case VariableRole::kParameter:
      return "parameter";
    case VariableRole::kStatistic:
      return "statistic";
    case VariableRole::kSlot:
      return "slot";
    case VariableRole::kScalar:
      return "scalar";
    case VariableRole::kWithinStep:
      return "within_step";
    case VariableRole::kConstant:
      return "constant";
    case VariableRole::kDerived:
      return "derived";
  }
  return "?";
}

std::string NodeText(const Graph& graph, const Node& node) {
  const auto name = [&graph](std::string* out, ValueId id) {
    absl::StrAppend(out, id.valid() ? graph.value(id).name : "-");
  };
  const auto type = [&graph](std::string* out, ValueId id) { absl::StrAppend(out, graph.type(id).ToString()); };
  std::string text = node.outputs.empty() ? absl::StrCat("[", node.name, "]") : absl::StrJoin(node.outputs, ", ", name);
  absl::StrAppend(&text, " = ", node.op, "(", absl::StrJoin(node.inputs, ", ", name), ")");
  if (!node.options.text().empty()) absl::StrAppend(&text, " {", node.options.text(), "}");
  if (!node.outputs.empty()) absl::StrAppend(&text, " : ", absl::StrJoin(node.outputs, ", ", type));
  return text;
}

// `text` ends with a line's end.
std::string Indented(absl::string_view text) {
  text.remove_suffix(1);
  return absl::StrCat("  ", absl::StrReplaceAll(text, {{"\n", "\n  "}}), "\n");
}

std::string Escaped(absl::string_view text) { return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}); }

}  // namespace

std::string ToText(const Graph& graph) {
  std::string text = absl::StrCat("graph \"", graph.name, "\"\n");
  for (const ValueId id : graph.inputs()) {
    absl::StrAppend(&text, "input ", graph.value(id).name, " ", graph.type(id).ToString(), "\n");
  }
  for (const Variable& v : graph.variables()) {
    absl::StrAppend(&text, "variable ", v.name, " ", v.type.ToString(), " ", RoleName(v.role),
                    v.frozen ? " frozen" : "", "\n");
  }
  Phase phase = Phase::kForward;
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    if (node.phase != phase) {
      phase = node.phase;
      absl::StrAppend(&text, "# ",
                      phase == Phase::kForward    ? "forward"
                      : phase == Phase::kBackward ? "backward"
                                                  : "update",
                      "\n");
    }
    absl::StrAppend(&text, NodeText(graph, node), "\n");
    for (const auto& subgraph : node.subgraphs) absl::StrAppend(&text, Indented(ToText(*subgraph)));
  }
  for (const ValueId id : graph.objectives) absl::StrAppend(&text, "objective ", graph.value(id).name, "\n");
  for (const Output& output : graph.outputs) {
    absl::StrAppend(
        &text, "output ", output.name,
        output.name == graph.value(output.value).name ? "" : absl::StrCat(" = ", graph.value(output.value).name), "\n");
  }
  return text;
}

std::string ToDot(const Graph& graph) {
  std::string dot = absl::StrCat("digraph \"", Escaped(graph.name),
                                 "\" {\n  rankdir=TB;\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n");
  const auto colour = [](Phase phase) {
    return phase == Phase::kForward ? "#dbeafe" : phase == Phase::kBackward ? "#fee2e2" : "#dcfce7";
  };
  for (const ValueId id : graph.inputs()) {
    absl::StrAppend(&dot, "  v", id.index, " [shape=ellipse, fillcolor=\"#fef9c3\", label=\"",
                    Escaped(graph.value(id).name), "\\n", graph.type(id).ToString(), "\"];\n");
  }
  for (const Variable& v : graph.variables()) {
    absl::StrAppend(&dot, "  v", v.value.index, " [shape=cylinder, fillcolor=\"#f3f4f6\", label=\"", Escaped(v.name),
                    "\\n", v.type.ToString(), "\"];\n");
  }
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    absl::StrAppend(&dot, "  n", id.index, " [fillcolor=\"", colour(node.phase), "\", label=\"", Escaped(node.name),
                    "\\n", node.op, "\"];\n");
    for (const ValueId input : node.inputs) {
      if (!input.valid()) continue;
      const Value& value = graph.value(input);
      const std::string source =
          value.producer.valid() ? absl::StrCat("n", value.producer.index) : absl::StrCat("v", input.index);
      absl::StrAppend(&dot, "  ", source, " -> n", id.index, " [label=\"", value.type.ToString(), "\", fontsize=9];\n");
    }
  }
  return dot + "}\n";
}

}  // namespace snug::core
