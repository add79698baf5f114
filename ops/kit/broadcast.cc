#include "ops/kit/broadcast.h"

namespace snug::core {
namespace {

Strides AlignedStrides(const ValueType& operand, const ValueType& output) {
  const Strides own = operand.strides();
  Strides aligned = {};
  const int shift = output.shape.rank() - operand.shape.rank();
  for (int axis = 0; axis < operand.shape.rank(); ++axis) {
    if (operand.shape[axis] > 1) aligned[static_cast<size_t>(axis + shift)] = own[static_cast<size_t>(axis)];
  }
  return aligned;
}

}  // namespace

BroadcastView::BroadcastView(const ValueType& operand, const ValueType& output)
    : BroadcastView(AlignedStrides(operand, output), output) {}

BroadcastView::BroadcastView(const Strides& strides, const ValueType& output) {
  const auto order = MemoryOrder(output);
  for (int i = 0; i < output.shape.rank(); ++i) {
    const int axis = order[static_cast<size_t>(i)];
    axes_.Append(output.shape[axis], strides[static_cast<size_t>(axis)]);
  }
}

}  // namespace snug::core
