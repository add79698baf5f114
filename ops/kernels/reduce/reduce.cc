#include "ops/kernels/reduce/reduce.h"

namespace snug::core {

ReducePlan::ReducePlan(const ValueType& x, const std::array<bool, kMaxRank>& reduced, const Strides& y_strides) {
  const Strides x_strides = x.strides();
  const auto order = MemoryOrder(x);
  inner_kept = false;
  for (int i = 0; i < x.shape.rank(); ++i) {
    const auto axis = static_cast<size_t>(order[static_cast<size_t>(i)]);
    const int64_t dim = x.shape[static_cast<int>(axis)];
    if (reduced[axis]) {
      reduced_x.Append(dim, x_strides[axis]);
    } else {
      kept_x.Append(dim, x_strides[axis]);
      kept_y.Append(dim, y_strides[axis]);
    }
    if (dim > 1) inner_kept = !reduced[axis];
  }
}

ReducePlan PlanSumToShape(const ValueType& x, const ValueType& y) {
  const Strides own = y.strides();
  std::array<bool, kMaxRank> reduced = {};
  Strides aligned = {};
  const int shift = x.shape.rank() - y.shape.rank();
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    const int from = axis - shift;
    reduced[static_cast<size_t>(axis)] = from < 0 || (y.shape[from] == 1 && x.shape[axis] != 1);
    if (from >= 0) aligned[static_cast<size_t>(axis)] = own[static_cast<size_t>(from)];
  }
  return ReducePlan(x, reduced, aligned);
}

}  // namespace snug::core
