#include "engine/compile/passes/run_passes.h"

#include <absl/strings/str_cat.h>

#include <memory>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/pipeline.h"

namespace snug::core {
namespace {

// Runs a pass on a graph and on the bodies of its loops.
absl::Status RunPass(const Pass& pass, Graph& graph, const OpRegistry& registry) {
  SNUG_RETURN_IF_ERROR(pass.run(graph, registry));
  if (pass.enters_bodies) return absl::OkStatus();
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    for (std::shared_ptr<const Graph>& subgraph : graph.node(id).subgraphs) {
      Graph body = *subgraph;
      SNUG_RETURN_IF_ERROR(RunPass(pass, body, registry));
      subgraph = std::make_shared<const Graph>(std::move(body));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Observe(const CompileOptions& options, absl::string_view stage, const Graph& graph) {
  if (options.observer) options.observer(stage, graph);
  return Annotate(VerifyGraph(graph), absl::StrCat("after stage ", stage));
}

absl::Status RunPasses(Graph& graph, const OpRegistry& registry, absl::Span<const Pass> passes, int number,
                       const CompileOptions& options) {
  for (const Pass& pass : passes) {
    if (options.disabled_passes.contains(std::string(pass.name))) continue;
    SNUG_RETURN_IF_ERROR(Annotate(RunPass(pass, graph, registry), absl::StrCat("pass ", pass.name)));
    SNUG_RETURN_IF_ERROR(Observe(options, absl::StrCat(number++, "_", pass.name), graph));
  }
  return absl::OkStatus();
}

}  // namespace snug::core
