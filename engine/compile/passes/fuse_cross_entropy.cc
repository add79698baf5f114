// Fuses a log_softmax over the last axis with the nll_loss that alone reads it: softmax_cross_entropy never stores the
// log-probabilities. It runs before the backward stage, so that the fused op's own gradient is used.
#include <absl/strings/str_cat.h>

#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {

absl::Status FuseCrossEntropy(Graph& graph, const OpRegistry& registry) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  for (const NodeId id : graph.ProgramOrder()) {
    if (graph.node(id).op != "log_softmax") continue;
    const Node log_softmax = graph.node(id);
    const NodeId reader = surroundings.SoleReader(log_softmax.outputs[0]);
    if (!reader.valid() || graph.node(reader).op != "nll_loss") continue;
    const int64_t axis = log_softmax.options.Get<proto::Softmax>().axis();
    if (axis != -1 && axis != graph.type(log_softmax.outputs[0]).shape.rank() - 1) continue;

    const Node nll = graph.node(reader);
    proto::SoftmaxCrossEntropy options;
    options.set_ignore_index(nll.options.Get<proto::NegativeLogLikelihood>().ignore_index());
    SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> fused,
                          builder.AddBefore(reader, nll,
                                            {.name = absl::StrCat(log_softmax.name, "+", nll.name),
                                             .op = "softmax_cross_entropy",
                                             .options = proto::MakeOptions(options),
                                             .inputs = {log_softmax.inputs[0], nll.inputs[1]}}));
    graph.ReplaceUses(nll.outputs[0], fused[0]);
    graph.RemoveNode(reader);
    graph.RemoveNode(id);
  }
  return absl::OkStatus();
}

}  // namespace snug::core
