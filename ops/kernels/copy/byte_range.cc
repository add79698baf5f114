#include "ops/kernels/copy/byte_range.h"

#include "ops/kernels/copy/strided_copy.h"

namespace snug::core {

std::optional<int64_t> RangeWithin(const ValueType& whole, const Shape& begin, const Shape& step,
                                   const ValueType& part) {
  if (whole.layout.packed || part.layout.packed || whole.dtype != part.dtype) return std::nullopt;
  const Strides outer = whole.strides();
  const Strides inner = part.strides();
  for (int i = 0; i < part.shape.rank(); ++i) {
    const auto axis = static_cast<size_t>(i);
    if (part.shape[i] > 1 && inner[axis] != outer[axis] * step[i]) return std::nullopt;
  }
  return OffsetOf(begin, outer) * SizeOf(whole.dtype);
}

std::optional<int64_t> RangeAlong(const ValueType& whole, int axis, int64_t begin, const ValueType& part) {
  Shape from, step;
  for (int i = 0; i < whole.shape.rank(); ++i) {
    from.Append(i == axis ? begin : 0);
    step.Append(1);
  }
  return RangeWithin(whole, from, step, part);
}

}  // namespace snug::core
