// Pads the classes of a dense layer whose result only a softmax_cross_entropy reads. Rows of 50257 bfloat16 numbers
// begin at addresses that tensor cores cannot load from, which makes the three products of the layer many times slower;
// rows of 50304 do not. The weights get rows of zeros (a concat, into which the cast that makes them writes if its
// bytes end at a multiple of the alignment, so that it costs no copy), the loss is told how many classes there are, and
// the weights' gradient is the first part of what is computed. Nothing of it is seen outside: Variables keep their
// shapes, and logits that are fetched are left alone.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/kernels/conversions.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "ops/slice_box.h"
#include "proto/data_type.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

constexpr int64_t kFewest = 1024;  // classes: for fewer, the padding would be a large part
constexpr int64_t kAligned = 8;    // elements in the 16 bytes that tensor cores load
constexpr int64_t kWhole = 64;     // elements in the 128 bytes of a line

int64_t Width(const ValueType& type) { return type.shape[type.shape.rank() - 1]; }

template <class Message>
void SetDims(const Shape& shape, Message* options) {
  options->clear_dim();
  for (const int64_t dim : shape.dims()) options->add_dim(dim);
}

class Padder {
 public:
  Padder(Graph& graph, const OpRegistry& registry) : graph_(graph), surroundings_(graph), builder_(registry, &graph) {}

  absl::Status Run() {
    for (const NodeId id : graph_.ProgramOrder()) {
      if (graph_.node(id).op == "dense" && Matches(id)) SNUG_RETURN_IF_ERROR(Pad());
    }
    return absl::OkStatus();
  }

 private:
  // What reads the logits and their gradient, by what has to be done with it.
  struct Head {
    NodeId dense;
    std::vector<NodeId> losses;     // softmax_cross_entropy and its gradient
    std::vector<NodeId> products;   // dense_grad_input: reads the weights
    std::vector<NodeId> gradients;  // of weight or bias: their first axis is that of the classes
  };

  bool Matches(NodeId dense) {
    head_ = {.dense = dense};
    const ValueId logits = graph_.node(dense).outputs[0];
    classes_ = Width(graph_.type(logits));
    if (graph_.type(logits).dtype != DType::kBFloat16 || classes_ < kFewest || classes_ % kAligned == 0) return false;
    if (surroundings_.Kept(logits)) return false;
    const std::vector<NodeId>& readers = surroundings_.Readers(logits);
    return std::all_of(readers.begin(), readers.end(), [&](NodeId reader) { return IsLoss(reader, logits); });
  }

  bool IsLoss(NodeId id, ValueId logits) {
    const Node& node = graph_.node(id);
    const bool gradient = node.op == "softmax_cross_entropy_grad";
    if (!gradient && node.op != "softmax_cross_entropy") return false;
    if (node.inputs[0] != logits || IsFloating(graph_.type(node.inputs[1]).dtype)) return false;
    if (node.options.Get<proto::SoftmaxCrossEntropy>().has_classes()) return false;
    head_.losses.push_back(id);
    return !gradient || ReadByTheLayer(node.outputs[0]);
  }

  // Tells whether only the layer's own gradients read the gradient of the logits.
  bool ReadByTheLayer(ValueId gradient) {
    if (surroundings_.Kept(gradient)) return false;
    const ValueId weight = graph_.node(head_.dense).inputs[1];
    for (const NodeId reader : surroundings_.Readers(gradient)) {
      const Node& node = graph_.node(reader);
      if (node.op == "dense_grad_input" && node.inputs[1] == weight) {
        head_.products.push_back(reader);
      } else if ((node.op == "dense_grad_weight" && node.inputs[1] == gradient && node.inputs[0] != gradient) ||
                 (node.op == "reduce_to_shape" && graph_.type(node.outputs[0]).shape == Shape({classes_}))) {
        head_.gradients.push_back(reader);
      } else {
        return false;
      }
    }
    return true;
  }

  absl::Status Pad() {
    padded_ = (classes_ + kWhole - 1) / kWhole * kWhole;
    Node& dense = graph_.node(head_.dense);
    for (size_t i = 1; i < dense.inputs.size(); ++i) {
      if (!dense.inputs[i].valid()) continue;
      SNUG_ASSIGN_OR_RETURN(const ValueId padded, WithZeros(dense.inputs[i]));
      graph_.node(head_.dense).inputs[i] = padded;
    }
    const ValueId weight = graph_.node(head_.dense).inputs[1];
    proto::Dense options = graph_.node(head_.dense).options.Get<proto::Dense>();
    options.set_units(padded_);
    graph_.node(head_.dense).options = proto::MakeOptions(options);
    Widen(graph_.node(head_.dense).outputs[0]);
    for (const NodeId id : head_.losses) TellClasses(id);
    for (const NodeId id : head_.products) graph_.node(id).inputs[1] = weight;
    for (const NodeId id : head_.gradients) SNUG_RETURN_IF_ERROR(TakeClasses(id));
    return absl::OkStatus();
  }

  // The last axis becomes the padded one.
  void Widen(ValueId value) {
    Shape& shape = graph_.value(value).type.shape;
    shape = shape.WithDim(shape.rank() - 1, padded_);
  }

  // A parameter with zeros behind it.
  absl::StatusOr<ValueId> WithZeros(ValueId parameter) {
    proto::Fill zeros;
    zeros.set_dtype(proto::FromDType(graph_.type(parameter).dtype));
    SetDims(graph_.type(parameter).shape.WithDim(0, padded_ - classes_), &zeros);
    SNUG_ASSIGN_OR_RETURN(const ValueId fill, Add("fill", parameter, "/zeros", head_.dense, {}, zeros));
    proto::Concat concat;
    concat.set_axis(0);
    return Add("concat", parameter, "/padded", head_.dense, {parameter, fill}, concat);
  }

  void TellClasses(NodeId loss) {
    Node& node = graph_.node(loss);
    proto::SoftmaxCrossEntropy options = node.options.Get<proto::SoftmaxCrossEntropy>();
    options.set_classes(classes_);
    node.options = proto::MakeOptions(options);
    if (node.op == "softmax_cross_entropy_grad") Widen(node.outputs[0]);
  }

  // Lets everyone read the first part of a gradient of weight or bias, the rest of which is zero.
  absl::Status TakeClasses(NodeId gradient) {
    const ValueId whole = graph_.node(gradient).outputs[0];
    Shape& shape = graph_.value(whole).type.shape;
    shape = shape.WithDim(0, padded_);
    if (graph_.node(gradient).op == "reduce_to_shape") {
      proto::ShapeOf options;
      SetDims(shape, &options);
      graph_.node(gradient).options = proto::MakeOptions(options);
    }
    SNUG_ASSIGN_OR_RETURN(const ValueId part, Add("slice", whole, "/classes", graph_.node(gradient).next, {whole},
                                                  SliceAlong(0, 0, classes_)));
    ReadInstead(graph_, whole, part);
    return absl::OkStatus();
  }

  // Adds a node right before `before`, named after `value`.
  template <class Message>
  absl::StatusOr<ValueId> Add(absl::string_view op, ValueId value, absl::string_view what, NodeId before,
                              const std::vector<ValueId>& inputs, const Message& options) {
    const NodeId producer = graph_.value(value).producer;
    const NodeId beside = producer.valid() ? producer : head_.dense;
    const NodeId previous = graph_.insertion_point();
    graph_.SetInsertionPoint(before);
    const absl::StatusOr<NodeId> node = builder_.Add({.name = absl::StrCat(graph_.value(value).name, what),
                                                      .op = std::string(op),
                                                      .options = proto::MakeOptions(options),
                                                      .inputs = inputs,
                                                      .loc = graph_.node(beside).loc,
                                                      .phase = graph_.node(beside).phase});
    graph_.SetInsertionPoint(previous);
    if (!node.ok()) return node.status();
    return graph_.node(*node).outputs[0];
  }

  Graph& graph_;
  const Surroundings surroundings_;  // of what the pass has not changed: heads share no nodes but parameters
  GraphBuilder builder_;
  Head head_;
  int64_t classes_ = 0;
  int64_t padded_ = 0;
};

}  // namespace

absl::Status PadClasses(Graph& graph, const OpRegistry& registry) { return Padder(graph, registry).Run(); }

}  // namespace snug::core
