#include "snug/op.h"

#include "snug/internal/convert.h"
#include "snug/internal/outside_node.h"

namespace snug {
inline namespace v0 {
namespace {

// These return the running node's own values. In a gradient node, the inputs are the forward node's inputs, outputs and
// output gradients, and the outputs are the gradients that are wanted.
Tensor OwnInput(const OpCall::State& s, int i, const core::ValueType& type) {
  const bool present = s.kernel != nullptr && s.kernel->has_input(i);
  return embed::ToTensor(type, present ? const_cast<void*>(s.kernel->input<void>(i)) : nullptr);
}

Tensor OwnOutput(const OpCall::State& s, int i, const core::ValueType& type) {
  return embed::ToTensor(type, s.kernel != nullptr ? s.kernel->output<void>(i) : nullptr);
}

const embed::OutsideNode::Option* Find(const OpCall::State& s, std::string_view name) {
  const auto it = s.node->options.find(name);
  return it == s.node->options.end() ? nullptr : &it->second;
}

}  // namespace

int OpCall::num_inputs() const noexcept {
  return state_.node->gradient ? static_cast<int>(state_.node->inputs.size()) : state_.types->num_inputs();
}

int OpCall::num_outputs() const noexcept { return state_.node->op->op.outputs; }

Tensor OpCall::input(int i) const noexcept {
  if (i < 0 || i >= num_inputs()) return {};
  return OwnInput(state_, i,
                  state_.node->gradient ? state_.node->inputs[static_cast<size_t>(i)] : state_.types->input(i));
}

Tensor OpCall::output(int i) const noexcept {
  if (i < 0 || i >= num_outputs()) return {};
  if (state_.node->gradient) return OwnInput(state_, num_inputs() + i, state_.node->outputs[static_cast<size_t>(i)]);
  return state_.kernel == nullptr ? Tensor() : OwnOutput(state_, i, state_.types->output(i));
}

Tensor OpCall::output_gradient(int i) const noexcept {
  if (!state_.node->gradient || i < 0 || i >= num_outputs()) return {};
  return OwnInput(state_, num_inputs() + num_outputs() + i, state_.node->outputs[static_cast<size_t>(i)]);
}

Tensor OpCall::input_gradient(int i) const noexcept {
  const embed::OutsideNode& node = *state_.node;
  if (!node.gradient || i < 0 || i >= num_inputs() || !node.wanted[static_cast<size_t>(i)]) return {};
  int position = 0;
  for (int k = 0; k < i; ++k) position += node.wanted[static_cast<size_t>(k)] ? 1 : 0;
  return OwnOutput(state_, position, node.inputs[static_cast<size_t>(i)]);
}

double OpCall::number(std::string_view option, double otherwise) const noexcept {
  const std::span<const double> all = numbers(option);
  return all.empty() ? otherwise : all[0];
}

std::span<const double> OpCall::numbers(std::string_view option) const noexcept {
  const auto* found = Find(state_, option);
  return found == nullptr ? std::span<const double>() : std::span<const double>(found->numbers);
}

std::string_view OpCall::text(std::string_view option, std::string_view otherwise) const noexcept {
  const auto* found = Find(state_, option);
  return found == nullptr || found->text.empty() ? otherwise : std::string_view(found->text);
}

int OpCall::threads() const noexcept { return state_.threads; }

}  // namespace v0
}  // namespace snug
