#include "engine/compile/unread_parameters.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <utility>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/graph/graph.h"

namespace snug::core {
namespace {

bool IsFetched(const Graph& graph, ValueId value) {
  return absl::c_any_of(graph.outputs, [&](const Output& output) { return output.value == value; });
}

struct UnreadLayer {
  std::string place;
  std::vector<std::string> parameters;
};

std::vector<UnreadLayer> UnreadLayers(const Graph& graph) {
  const std::vector<std::vector<NodeId>> readers = ReadersOf(graph);
  std::vector<UnreadLayer> layers;
  for (const Variable& variable : graph.variables()) {
    if (variable.role != VariableRole::kParameter) continue;
    if (!readers[static_cast<size_t>(variable.value.index)].empty() || IsFetched(graph, variable.value)) continue;
    std::string place = variable.loc.ToString();
    if (variable.loc.trace != nullptr) absl::StrAppend(&place, " (", *variable.loc.trace, ")");
    if (layers.empty() || layers.back().place != place) layers.push_back({std::move(place), {}});
    layers.back().parameters.push_back(variable.name);
  }
  return layers;
}

}  // namespace

std::string UnreadParametersText(const Compiled& compiled) {
  if (!compiled.training) return "";
  std::string text;
  for (const UnreadLayer& layer : UnreadLayers(compiled.graph)) {
    absl::StrAppend(&text, "warning: ", layer.place, ": nothing reads ", absl::StrJoin(layer.parameters, ", "),
                    ", so no step changes that: does an input name another layer than it means to?\n");
  }
  return text;
}

}  // namespace snug::core
