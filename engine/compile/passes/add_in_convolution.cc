// Adds a shortcut, and applies the activation after it, where the convolution of 1 x 1 taps and steps of 1 before
// the addition is computed, if nothing else reads what is between. Two sweeps over the data are saved. Batch norms
// stand between these unless they are folded (CompileOptions::keep_derived).
#include <absl/strings/str_cat.h>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/activation.h"
#include "ops/conv_fusions.h"
#include "ops/graph_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {

absl::Status AddInConvolution(Graph& graph, const OpRegistry& registry) {
  const Surroundings surroundings(graph);
  GraphBuilder builder(registry, &graph);
  std::unordered_map<ValueId, ValueId> replaced;
  std::vector<NodeId> joined;
  for (const NodeId id : graph.ProgramOrder()) {
    if (graph.node(id).op != "add") continue;
    const Node add = graph.node(id);
    if (!(graph.type(add.inputs[0]) == graph.type(add.inputs[1])) || add.inputs[0] == add.inputs[1]) continue;
    proto::FusedConv options;
    NodeId last = id;
    std::string name = add.name;
    const NodeId reader = surroundings.SoleReader(add.outputs[0]);
    if (reader.valid()) {
      if (const Activation activation = registry.Get(graph.node(reader).op).activation;
          activation != Activation::kIdentity) {
        options.set_activation(ToProto(activation));
        absl::StrAppend(&name, "+", graph.node(reader).name);
        last = reader;
      }
    }
    for (const size_t side : {size_t{1}, size_t{0}}) {
      const ValueId sum = add.inputs[side];
      const NodeId producer = graph.value(sum).producer;
      if (!producer.valid() || graph.node(producer).op != "conv" || surroundings.SoleReader(sum) != id) continue;
      const Node conv = graph.node(producer);
      *options.mutable_conv() = conv.options.Get<proto::Conv>();
      if (!ConvolvesAndAdds(options, graph.type(conv.inputs[0]))) continue;
      std::vector<ValueId> inputs = conv.inputs;
      inputs.resize(3);  // a bias may be absent
      inputs.push_back(add.inputs[1 - side]);
      SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> added,
                            builder.AddBefore(last, conv,
                                              {.name = absl::StrCat(conv.name, "+", name),
                                               .op = "conv_add",
                                               .options = proto::MakeOptions(options),
                                               .inputs = std::move(inputs)}));
      replaced[graph.node(last).outputs[0]] = added[0];
      joined.push_back(producer);
      joined.push_back(id);
      if (last != id) joined.push_back(last);
      break;
    }
  }
  graph.ReplaceUses(replaced);
  for (const NodeId id : joined) graph.RemoveNode(id);
  return absl::OkStatus();
}

}  // namespace snug::core
