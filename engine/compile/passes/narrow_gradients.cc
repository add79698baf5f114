// Lets updates read bfloat16 gradients as they are. Differentiating a cast of a float32 parameter to bfloat16 gives a
// cast of its gradient to float32; an update widens what it reads itself, to the same bits, so the copy of twice the
// bytes is not needed.
#include "engine/compile/kernels/conversions.h"
#include "engine/compile/passes/pass.h"

namespace snug::core {
namespace {

// The bfloat16 value that `value` is a float32 copy of; invalid: it is no such copy.
ValueId Unwidened(const Graph& graph, ValueId value) {
  if (!value.valid()) return {};
  const NodeId producer = graph.value(value).producer;
  if (!producer.valid() || !IsCast(graph.node(producer)) || graph.type(value).dtype != DType::kFloat32) return {};
  const ValueId source = graph.node(producer).inputs[0];
  return graph.type(source).dtype == DType::kBFloat16 && !graph.value(source).variable.valid() ? source : ValueId();
}

}  // namespace

absl::Status NarrowGradients(Graph& graph, const OpRegistry& registry) {
  for (const NodeId id : graph.ProgramOrder()) {
    for (size_t i = 0; i < graph.node(id).inputs.size(); ++i) {
      const ValueId narrow = Unwidened(graph, graph.node(id).inputs[i]);
      if (narrow.valid() && MayReadInstead(graph, registry, id, i, narrow)) graph.node(id).inputs[i] = narrow;
    }
  }
  return absl::OkStatus();
}

}  // namespace snug::core
