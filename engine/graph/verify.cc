#include <absl/strings/str_cat.h>

#include <string_view>
#include <unordered_set>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace snug::core {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.value_capacity(), false) {}

  absl::Status Run() {
    SNUG_RETURN_IF_ERROR(CheckSources());
    size_t nodes = 0;
    NodeId previous;
    for (NodeId id = graph_.first_node(); id.valid(); previous = id, id = graph_.node(id).next) {
      if (++nodes > graph_.num_nodes()) return Bug("the list of nodes has a circle");
      if (graph_.node(id).previous != previous) return Bug(absl::StrCat("node ", id.index, " is linked wrongly"));
      SNUG_RETURN_IF_ERROR(CheckNode(id));
    }
    if (nodes != graph_.num_nodes())
      return Bug(absl::StrCat(nodes, " nodes in the list, ", graph_.num_nodes(), " live"));
    for (const Output& output : graph_.outputs) {
      SNUG_RETURN_IF_ERROR(CheckRead(output.value, [&] { return absl::StrCat("output ", output.name); }));
    }
    for (const ValueId objective : graph_.objectives) {
      SNUG_RETURN_IF_ERROR(CheckRead(objective, [] { return std::string("an objective"); }));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Bug(const std::string& message) const {
    return absl::InternalError(absl::StrCat("graph \"", graph_.name, "\": ", message));
  }

  absl::Status CheckSources() {
    for (const ValueId input : graph_.inputs()) defined_[static_cast<size_t>(input.index)] = true;
    for (const Variable& variable : graph_.variables()) {
      if (!variable.value.valid() || !(graph_.type(variable.value) == variable.type)) {
        return Bug(absl::StrCat("variable ", variable.name, " and its value disagree"));
      }
      defined_[static_cast<size_t>(variable.value.index)] = true;
    }
    return absl::OkStatus();
  }

  // `reader()` is its name, which only an error needs.
  template <class Reader>
  absl::Status CheckRead(ValueId id, const Reader& reader) const {
    if (static_cast<size_t>(id.index) >= defined_.size())
      return Bug(absl::StrCat(reader(), " reads value ", id.index, ", which is none"));
    if (!defined_[static_cast<size_t>(id.index)]) {
      return Bug(absl::StrCat(reader(), " reads \"", graph_.value(id).name, "\" before it is written"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckNode(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.removed) return Bug(absl::StrCat("removed node \"", node.name, "\" is still in the list"));
    if (!names_.insert(node.name).second) return Bug(absl::StrCat("two nodes are named \"", node.name, "\""));
    for (const ValueId input : node.inputs) {
      if (input.valid())
        SNUG_RETURN_IF_ERROR(CheckRead(input, [&] { return absl::StrCat("node \"", node.name, "\""); }));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& value = graph_.value(node.outputs[i]);
      if (value.producer != id || value.output_index != static_cast<int>(i)) {
        return Bug(absl::StrCat("output ", i, " of \"", node.name, "\" names another producer"));
      }
      defined_[static_cast<size_t>(node.outputs[i].index)] = true;
    }
    for (const auto& subgraph : node.subgraphs) SNUG_RETURN_IF_ERROR(VerifyGraph(*subgraph));
    return absl::OkStatus();
  }

  const Graph& graph_;
  std::vector<bool> defined_;
  std::unordered_set<std::string_view> names_;
};

}  // namespace

absl::Status VerifyGraph(const Graph& graph) { return Verifier(graph).Run(); }

}  // namespace snug::core
