// Walks an array in the order in which another array lies in memory, as broadcasts and reductions do.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/base/host_device.h"
#include "engine/graph/value_type.h"

namespace snug::core {

// Axes from the outermost to the innermost, each with the walked array's stride. Neighbours that are one axis in memory
// are merged and axes of one element dropped, so the common cases have one to three axes.
struct Axes {
  int rank = 0;
  std::array<int64_t, kMaxRank> dims = {};
  Strides strides = {};

  void Append(int64_t dim, int64_t stride) {  // inside of those that there are
    if (dim == 1) return;
    const auto last = static_cast<size_t>(rank) - 1;
    if (rank > 0 && strides[last] == stride * dim) {
      dims[last] *= dim;
      strides[last] = stride;
    } else {
      dims[last + 1] = dim;
      strides[last + 1] = stride;
      ++rank;
    }
  }
  int64_t count() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[static_cast<size_t>(i)];
    return n;
  }
  // Returns where element i lies in the walked array.
  SNUG_HOST_DEVICE int64_t Offset(int64_t i) const {
    int64_t offset = 0;
    for (int axis = rank - 1; axis > 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      const int64_t rest = i / dims[a];
      offset += (i - rest * dims[a]) * strides[a];
      i = rest;
    }
    return rank == 0 ? 0 : offset + i * strides[0];
  }
  int64_t inner_dim() const { return rank == 0 ? 1 : dims[static_cast<size_t>(rank) - 1]; }
  int64_t inner_stride() const { return rank == 0 ? 0 : strides[static_cast<size_t>(rank) - 1]; }
};

// Returns the logical axes of a value, the one that is outermost in memory first.
inline std::array<int, kMaxRank> MemoryOrder(const ValueType& type) {
  std::array<int, kMaxRank> order = {};
  const int rank = type.shape.rank();
  for (int i = 0; i < rank; ++i) order[static_cast<size_t>(i)] = i;
  if (type.layout.channels_last()) std::rotate(order.begin() + 1, order.begin() + 2, order.begin() + rank);
  return order;
}

// A position among the axes, as an offset into the walked array. It advances along the innermost axis, run by run.
class Walk {
 public:
  Walk(const Axes& axes, int64_t begin) : axes_(axes) {
    for (int i = axes.rank - 1; i >= 0; --i) {
      const auto axis = static_cast<size_t>(i);
      index_[axis] = begin % axes.dims[axis];
      begin /= axes.dims[axis];
      offset_ += index_[axis] * axes.strides[axis];
    }
    inner_ = static_cast<size_t>(std::max(axes.rank - 1, 0));
  }

  int64_t offset() const { return offset_; }
  int64_t left() const { return axes_.inner_dim() - index_[inner_]; }  // how many elements remain on the innermost axis
  void Advance(int64_t n) {                                            // n <= left()
    index_[inner_] += n;
    offset_ += n * axes_.strides[inner_];
    for (size_t axis = inner_; axis > 0 && index_[axis] == axes_.dims[axis]; --axis) {
      offset_ += axes_.strides[axis - 1] - index_[axis] * axes_.strides[axis];
      index_[axis] = 0;
      ++index_[axis - 1];
    }
  }

 private:
  const Axes& axes_;
  std::array<int64_t, kMaxRank> index_ = {};
  int64_t offset_ = 0;
  size_t inner_ = 0;
};

}  // namespace snug::core
