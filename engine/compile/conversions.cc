#include "engine/compile/reorder.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace snug {

ValueId InsertReorder(Graph& graph, ValueId value, const Layout& layout, NodeId before, NodeId beside) {
  ValueType type = graph.type(value);
  type.layout = layout;
  NodeSpec spec{.name = absl::StrCat(graph.value(value).name, "/", layout.plain() ? "plain" : layout.ToString()),
                .op = "reorder",
                .inputs = {value},
                .output_types = {std::move(type)}};
  if (beside.valid()) {
    spec.loc = graph.node(beside).loc;
    spec.phase = graph.node(beside).phase;
  }
  const NodeId previous = graph.insertion_point();
  graph.SetInsertionPoint(before);
  const NodeId node = graph.AddNode(std::move(spec));
  graph.SetInsertionPoint(previous);
  return graph.node(node).outputs[0];
}

}  // namespace snug
