// What a value of the ONNX graph is in the network that is made of it.
//
// Snug keeps the batch as axis 0, and no reshape may touch that; exporters move it about, and merge it with others
// ([batch, heads, length, width] becomes [batch * heads, length, width]). So a value is a *view* of a layer's output:
// for each axis of ONNX, the axes of the layer's output that it consists of, in their order. To transpose or to reshape
// changes the view and makes no layer; a layer is made where an op needs the elements in a certain order.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <vector>

#include "interchange/import/network_builder.h"
#include "interchange/tensor.h"

namespace snug::core::onnx {

struct Value {
  std::optional<Tensor> constant;  // then the rest is empty
  bool failed = false;             // its node is among the errors; nothing that follows from it is

  Ref ref;
  Dims shape;                          // in ONNX
  std::vector<std::vector<int>> axes;  // axes[i]: the axes of ref that make axis i; those of size 1 may be in none

  const Dims& dims() const { return constant.has_value() ? constant->dims() : shape; }
  int rank() const { return static_cast<int>(dims().size()); }
  bool is_plain() const;  // the layer's output as it is
};

Value Plain(Ref ref);
Value Constant(Tensor tensor);

// The axis of the value that holds the batch, whole or with others.
int BatchAxis(const Value& x);

// The elements with one axis of the layer's output for each axis of the value, in this order; the first must be the
// batch alone.
absl::StatusOr<Ref> Arranged(NetworkBuilder& builder, const Value& x, const std::vector<int>& order);
// The same for the value's own order.
absl::StatusOr<Ref> InOrder(NetworkBuilder& builder, const Value& x);
// The order of axes in which the batch comes first and everything else stays in sequence.
std::vector<int> BatchFirst(const Value& x);
// `ref` has an axis for each of the value's, in this order: the value that it is.
Value FromArranged(Ref ref, const std::vector<int>& order);

// Axis `axis` consists of one axis of the result's layer, which is the last one of that.
absl::StatusOr<Value> WithLast(NetworkBuilder& builder, const Value& x, int axis);
// Every axis of the value, of size 1 too, is one axis of the layer's output.
absl::StatusOr<Value> OneForOne(NetworkBuilder& builder, const Value& x);

Value Transposed(const Value& x, const std::vector<int>& axes);
absl::StatusOr<Value> Reshaped(NetworkBuilder& builder, const Value& x, const Dims& shape);

// Makes two values fit an op that works element by element, on layers' outputs that broadcast as ONNX's values do. The
// result has x's view, with x's layer first.
struct Pair {
  Value x;  // the view of the result, but for its shape
  Ref a, b;
};
absl::StatusOr<Pair> Together(NetworkBuilder& builder, const Value& x, const Value& y);
// A constant as it must lie to be combined with x element by element, without axes of size 1 in front. Sets `x` to
// another view of the same if it needs that.
absl::StatusOr<Tensor> ConstantBeside(NetworkBuilder& builder, Value* x, const Tensor& constant);

}  // namespace snug::core::onnx
