// Has convolutions take the mean and variance that the batch norm behind them needs, while caches have their results:
// conv + batch_norm becomes conv_statistics + batch_norm_inference by these numbers, and batch_norm_fused alike. One of
// the three sweeps over memory that a batch norm takes is saved.
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/pass.h"
#include "ops/conv_fusions.h"
#include "ops/graph_builder.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

// Returns the op that normalises by statistics that are given; empty if `op` is no batch norm that takes them itself.
absl::string_view ByGivenStatistics(absl::string_view op) {
  if (op == "batch_norm") return "batch_norm_inference";
  if (op == "batch_norm_fused") return "batch_norm_inference_fused";
  return "";
}

}  // namespace

absl::Status MeasureInConvolution(Graph& graph, const OpRegistry& registry) {
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> replaced;
  for (const NodeId id : graph.ProgramOrder()) {
    const Node norm = graph.node(id);
    const absl::string_view by_given = ByGivenStatistics(norm.op);
    if (by_given.empty()) continue;
    const NodeId producer = graph.value(norm.inputs[0]).producer;
    if (!producer.valid() || graph.node(producer).removed || graph.node(producer).op != "conv") continue;
    const Node conv = graph.node(producer);
    if (!MeasuresAsItConvolves(conv.options.Get<proto::Conv>(), graph.type(conv.inputs[0]))) continue;

    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> measured,
                          builder.AddBefore(producer, conv,
                                            {.name = absl::StrCat(conv.name, "+statistics"),
                                             .op = "conv_statistics",
                                             .options = conv.options,
                                             .inputs = conv.inputs}));
    std::vector<ValueId> inputs = norm.inputs;  // x, weight, bias and what is added, of which three may be absent
    inputs.resize(std::max<size_t>(inputs.size(), 3));
    inputs[0] = measured[0];
    inputs.insert(inputs.begin() + 3, {measured[1], measured[2]});
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> normalised,
                          builder.AddBefore(id, norm,
                                            {.name = absl::StrCat(norm.name, "/apply"),
                                             .op = std::string(by_given),
                                             .options = norm.options,
                                             .inputs = std::move(inputs)}));
    replaced[conv.outputs[0]] = measured[0];
    replaced[norm.outputs[0]] = normalised[0];
    for (const size_t statistic : {1, 2}) replaced[norm.outputs[statistic]] = measured[statistic];
    graph.RemoveNode(producer);
    graph.RemoveNode(id);
  }
  graph.ReplaceUses(replaced);
  return absl::OkStatus();
}

}  // namespace snug::core
