// A gate y = x g with g = sigmoid(z), as of squeeze-and-excitation, takes its gradient from what it gave, in place of
// what it was given. What comes back to z is
//
//   g (1 - g) sum(dy x)  =  (1 - g) sum(dy y)
//
// without a division, so it holds wherever g is 0, and differs in the last bits alone. The next layer keeps y for its
// own gradient in any case. x, the widest value of its block, then dies in the forward pass, unless its own gradient
// needs it: behind batch norm + silu, which are one node (fuse_batch_norm_silu), it does not.
#include <absl/algorithm/container.h>

#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

class Gates {
 public:
  Gates(Graph& graph, const OpRegistry& registry) : graph_(graph), builder_(registry, &graph), surroundings_(graph) {}

  absl::Status Run() {
    for (const NodeId id : graph_.ProgramOrder()) {
      if (graph_.node(id).op == "sigmoid_grad") SNUG_RETURN_IF_ERROR(Rewrite(id));
    }
    graph_.ReplaceUses(replaced_);
    return absl::OkStatus();
  }

 private:
  // The node that makes the value, if it is one of that op and `reader` alone reads the value.
  NodeId SoleProducer(ValueId value, absl::string_view op, NodeId reader) const {
    const NodeId id = graph_.value(value).producer;
    const bool matches = id.valid() && graph_.node(id).op == op && surroundings_.SoleReader(value) == reader;
    return matches ? id : NodeId();
  }

  // Whether another node of the backward pass than `except` reads the value, so that it is kept.
  bool KeptFor(ValueId value, NodeId except) const {
    return surroundings_.Kept(value) || absl::c_any_of(surroundings_.Readers(value), [&](NodeId reader) {
             return reader != except && graph_.node(reader).phase != Phase::kForward;
           });
  }

  // The forward product of x and g, of x's shape.
  ValueId ProductOf(ValueId x, ValueId g) const {
    for (const NodeId reader : surroundings_.Readers(g)) {
      const Node& node = graph_.node(reader);
      if (node.op != "mul" || node.phase != Phase::kForward) continue;
      const bool ours = (node.inputs[0] == x && node.inputs[1] == g) || (node.inputs[0] == g && node.inputs[1] == x);
      if (ours && graph_.type(node.outputs[0]).shape == graph_.type(x).shape) return node.outputs[0];
    }
    return ValueId();
  }

  absl::StatusOr<ValueId> AddLike(const Node& like, std::string op, std::vector<ValueId> inputs,
                                  Options options = Options()) {
    SNUG_ASSIGN_OR_RETURN(const NodeId node, builder_.Add({.name = like.name,
                                                           .op = std::move(op),
                                                           .options = std::move(options),
                                                           .inputs = std::move(inputs),
                                                           .loc = like.loc,
                                                           .phase = like.phase,
                                                           .forward = like.forward}));
    return graph_.node(node).outputs[0];
  }

  // `id` is sigmoid_grad(g, reduce_to_shape(mul(dy, x))), if it is that of a gate.
  absl::Status Rewrite(NodeId id) {
    const Node grad = graph_.node(id);  // copies, because adding nodes moves them all
    const ValueId g = grad.inputs[0];
    const NodeId reduce_id = SoleProducer(grad.inputs[1], "reduce_to_shape", id);
    if (!reduce_id.valid()) return absl::OkStatus();
    const Node reduce = graph_.node(reduce_id);
    const NodeId product_id = SoleProducer(reduce.inputs[0], "mul", reduce_id);
    if (!product_id.valid()) return absl::OkStatus();
    const Node product = graph_.node(product_id);  // the gradient that mul has: dy x
    const ValueId x = product.inputs[1];
    const ValueId y = ProductOf(x, g);
    // In bfloat16 y is rounded to 8 bits once more than x.
    if (!y.valid() || graph_.type(y).dtype == DType::kBFloat16) return absl::OkStatus();
    if (!KeptFor(y, product_id) || KeptFor(x, product_id)) return absl::OkStatus();
    graph_.SetInsertionPoint(id);
    SNUG_ASSIGN_OR_RETURN(const ValueId again, AddLike(product, "mul", {product.inputs[0], y}));
    SNUG_ASSIGN_OR_RETURN(const ValueId sum, AddLike(reduce, "reduce_to_shape", {again}, reduce.options));
    // 1 - g is exact where g is near 1; the difference of sum and sum g would be mostly rounding there.
    proto::Scale from_one;
    from_one.set_factor(-1);
    from_one.set_offset(1);
    SNUG_ASSIGN_OR_RETURN(const ValueId rest, AddLike(grad, "scale", {g}, proto::MakeOptions(from_one)));
    SNUG_ASSIGN_OR_RETURN(const ValueId dz, AddLike(grad, "mul", {sum, rest}));
    graph_.SetInsertionPoint(NodeId());
    replaced_[grad.outputs[0]] = dz;
    for (const NodeId old : {id, reduce_id, product_id}) graph_.RemoveNode(old);
    return absl::OkStatus();
  }

  Graph& graph_;
  GraphBuilder builder_;
  const Surroundings surroundings_;  // of the graph as it was
  std::unordered_map<ValueId, ValueId> replaced_;
};

}  // namespace

absl::Status GateFromOutput(Graph& graph, const OpRegistry& registry) { return Gates(graph, registry).Run(); }

}  // namespace snug::core
