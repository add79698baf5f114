// What an op's gradient sees: it adds nodes that compute the gradients of its inputs from the gradients of its outputs.
// Every forward value that it names (input(i), output(i)) is kept alive for the backward pass, so it should name few,
// and those that cost least. Shapes alone come from input_type(i) and keep nothing.
//
//   absl::Status ReluGradient(GradContext& g) {  // dx = dy where y > 0: keeps y, frees x
//     g.SetInputGrad(0, g.Op("relu_grad", {g.output(0), g.output_grad(0)}));
//     return g.status();
//   }
#pragma once

#include <absl/types/span.h>

#include <vector>

#include "ops/op_context.h"

namespace snug::core {

class GradContext : public OpContext {
 public:
  GradContext(GraphBuilder& builder, NodeId node, std::vector<ValueId> output_grads, std::vector<bool> wanted);

  int num_inputs() const { return static_cast<int>(node().inputs.size()); }
  int num_outputs() const { return static_cast<int>(node().outputs.size()); }
  bool has_input(int i) const { return i < num_inputs() && node().inputs[static_cast<size_t>(i)].valid(); }
  ValueId input(int i) const { return node().inputs[static_cast<size_t>(i)]; }
  ValueId output(int i) const { return node().outputs[static_cast<size_t>(i)]; }
  const ValueType& input_type(int i) const { return type(input(i)); }
  const ValueType& output_type(int i) const { return type(output(i)); }
  const Options& options_handle() const { return node().options; }
  template <class Message>
  const Message& options() const {
    return node().options.Get<Message>();
  }

  // This is invalid where nothing flows back into that output, so that its gradient is zero. At least one is valid.
  ValueId output_grad(int i) const { return output_grads_[static_cast<size_t>(i)]; }
  bool has_output_grad(int i) const { return output_grad(i).valid(); }
  // Says whether anyone needs input i's gradient. No nodes should be made for others.
  bool wants(int i) const { return has_input(i) && wanted_[static_cast<size_t>(i)]; }
  // An input that is wanted but never set has a gradient of zero.
  void SetInputGrad(int i, ValueId grad);
  // Sets the gradients of the first inputs as one node gives them; those that are not wanted are ignored.
  void SetInputGrads(absl::Span<const ValueId> grads);

  // Makes a "layer-style" gradient: a single node of `op` that is tied to the forward node and gives the gradients of
  // all inputs, in order. Its inputs are the forward node's inputs, outputs and output gradients (absent ones stay
  // absent).
  absl::Status LayerStyle(absl::string_view op);

  const std::vector<ValueId>& input_grads() const { return input_grads_; }

 private:
  const Node& node() const { return builder_.graph().node(node_); }
  NodeSpec Describe(absl::string_view op, absl::string_view suffix) override;

  NodeId node_;
  std::vector<ValueId> output_grads_;
  std::vector<bool> wanted_;
  std::vector<ValueId> input_grads_;
};

// The gradient of input 0 as a single node of `op`, with the node's options. Its inputs are, as the name says, the
// node's output or input, and dy.
absl::Status GradientFromOutput(GradContext& g, absl::string_view op);
absl::Status GradientFromInput(GradContext& g, absl::string_view op);

}  // namespace snug::core
