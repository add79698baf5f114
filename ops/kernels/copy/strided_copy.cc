#include "ops/kernels/copy/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/kernels/copy/transpose.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace {

constexpr int64_t kChunkBytes = 1 << 16;  // the least size of a thread's piece of work
constexpr int64_t kPieceBytes = 1 << 18;  // longer rows are cut, so that few long ones keep all threads busy

struct Axis {
  int64_t dim, src, dst;  // size, and strides in both arrays
};

// A nest of loops, the outermost first.
struct Nest {
  int rank = 0;
  std::array<Axis, kMaxRank + 1> axes = {};

  const Axis& axis(int i) const { return axes[static_cast<size_t>(i)]; }
  Axis& axis(int i) { return axes[static_cast<size_t>(i)]; }
  int64_t count() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= axis(i).dim;
    return n;
  }
  void Append(const Axis& axis) { axes[static_cast<size_t>(rank++)] = axis; }
  Axis Remove(int i) {
    const Axis removed = axis(i);
    std::copy(axes.begin() + i + 1, axes.begin() + rank, axes.begin() + i);
    --rank;
    return removed;
  }
};

// Puts the axes in the order in which they lie in dst, and merges them as far as both arrays allow. At least one axis
// remains.
Nest MakeNest(const Shape& box, const Strides& src, const Strides& dst) {
  Nest sorted;
  for (int i = 0; i < box.rank(); ++i) {
    if (box[i] != 1) sorted.Append({box[i], src[static_cast<size_t>(i)], dst[static_cast<size_t>(i)]});
  }
  std::stable_sort(sorted.axes.begin(), sorted.axes.begin() + sorted.rank,
                   [](const Axis& a, const Axis& b) { return a.dst > b.dst; });
  Nest nest;
  for (int i = 0; i < sorted.rank; ++i) {
    const Axis& inner = sorted.axis(i);
    if (nest.rank > 0) {
      Axis& outer = nest.axis(nest.rank - 1);
      if (outer.src == inner.src * inner.dim && outer.dst == inner.dst * inner.dim) {
        outer = {outer.dim * inner.dim, inner.src, inner.dst};
        continue;
      }
    }
    nest.Append(inner);
  }
  if (nest.rank == 0) nest.Append({1, 1, 1});
  return nest;
}

// A position in a nest, with its offset in both arrays.
class Position {
 public:
  Position(const Nest& nest, int64_t linear) : nest_(nest) {
    for (int i = nest.rank - 1; i >= 0; --i) {
      const Axis& axis = nest.axis(i);
      const int64_t at = linear % axis.dim;
      linear /= axis.dim;
      at_[static_cast<size_t>(i)] = at;
      src_ += at * axis.src;
      dst_ += at * axis.dst;
    }
  }
  int64_t src() const { return src_; }
  int64_t dst() const { return dst_; }
  void Next() {
    for (int i = nest_.rank - 1; i >= 0; --i) {
      const Axis& axis = nest_.axis(i);
      src_ += axis.src;
      dst_ += axis.dst;
      if (++at_[static_cast<size_t>(i)] < axis.dim) return;
      src_ -= axis.dim * axis.src;
      dst_ -= axis.dim * axis.dst;
      at_[static_cast<size_t>(i)] = 0;
    }
  }

 private:
  const Nest& nest_;
  std::array<int64_t, kMaxRank + 1> at_ = {};
  int64_t src_ = 0, dst_ = 0;
};

// Calls row(src offset, dst offset, length) for every row of the nest's innermost axis; long rows come in pieces.
template <class Row>
void ForEachRow(int threads, int64_t element_bytes, Nest nest, const Row& row) {
  const Axis inner = nest.Remove(nest.rank - 1);
  const int64_t piece = std::min(inner.dim, kPieceBytes / element_bytes);
  const int64_t pieces = (inner.dim + piece - 1) / piece;
  nest.Append({pieces, piece * inner.src, piece * inner.dst});
  const int64_t chunk = std::max<int64_t>(1, kChunkBytes / (piece * element_bytes));
  ParallelFor(threads, nest.count(), chunk, [&](int64_t begin, int64_t end) {
    Position position(nest, begin);
    int64_t p = begin % pieces;
    for (int64_t i = begin; i < end; ++i) {
      row(position.src(), position.dst(), std::min(piece, inner.dim - p * piece));
      if (++p == pieces) p = 0;
      position.Next();
    }
  });
}

// Transposes a square as wide as a cache line, in registers: each line is read and written once, so that it does not
// matter if lines whole pages apart push each other out of the cache.
template <int64_t kTile, class T>
void TransposeTile(const T* from, int64_t from_row, T* to, int64_t to_row) {
  WithIsa([=](auto isa) SNUG_LAMBDA {
    constexpr int64_t kSide = std::min<int64_t>(kSquare<isa(), T>, 16);  // more rows than that fit no registers
    for (int64_t i = 0; i < kTile; i += kSide) {
      for (int64_t j = 0; j < kTile; j += kSide) {
        TransposeSquare<kSide, kSide>(from + i * from_row + j, from_row, to + j * to_row + i, to_row);
      }
    }
  });
}

// Swaps dst's innermost axis and src's in squares as wide as a cache line.
template <class T>
void Transpose(int threads, Nest nest, int src_axis, const T* src, T* dst) {
  constexpr int64_t kTile = 64 / static_cast<int64_t>(sizeof(T));
  const Axis inner = nest.Remove(nest.rank - 1);  // contiguous in dst
  const Axis cross = nest.Remove(src_axis);       // contiguous in src
  const auto tiles_of = [](int64_t dim) { return (dim + kTile - 1) / kTile; };
  const int64_t inner_tiles = tiles_of(inner.dim);
  const int64_t cross_tiles = tiles_of(cross.dim);
  nest.Append({cross_tiles, kTile, kTile * cross.dst});
  nest.Append({inner_tiles, kTile * inner.src, kTile});
  constexpr int64_t kChunk = kChunkBytes / (kTile * kTile * static_cast<int64_t>(sizeof(T)));
  ParallelFor(threads, nest.count(), kChunk, [&](int64_t begin, int64_t end) {
    Position position(nest, begin);
    for (int64_t t = begin; t < end; ++t, position.Next()) {
      const int64_t inner_size = std::min(kTile, inner.dim - t % inner_tiles * kTile);
      const int64_t cross_size = std::min(kTile, cross.dim - t / inner_tiles % cross_tiles * kTile);
      const T* from = src + position.src();
      T* to = dst + position.dst();
      if (inner_size == kTile && cross_size == kTile) {
        TransposeTile<kTile>(from, inner.src, to, cross.dst);
        continue;
      }
      for (int64_t c = 0; c < cross_size; ++c) {
        for (int64_t i = 0; i < inner_size; ++i) to[c * cross.dst + i] = from[c + i * inner.src];
      }
    }
  });
}

template <class T>
void Copy(int threads, const Nest& nest, const T* src, T* dst) {
  const Axis& inner = nest.axis(nest.rank - 1);
  if (inner.src == 1 && inner.dst == 1) {
    return ForEachRow(threads, sizeof(T), nest, [=](int64_t from, int64_t to, int64_t n) {
      std::memcpy(dst + to, src + from, static_cast<size_t>(n) * sizeof(T));
    });
  }
  constexpr int64_t kWorthATile = 4;
  if (inner.dst == 1 && inner.dim >= kWorthATile) {
    for (int i = 0; i + 1 < nest.rank; ++i) {
      if (nest.axis(i).src == 1 && nest.axis(i).dim >= kWorthATile) return Transpose(threads, nest, i, src, dst);
    }
  }
  ForEachRow(threads, sizeof(T), nest, [=](int64_t from, int64_t to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) dst[to + i * inner.dst] = src[from + i * inner.src];
  });
}

template <class T>
void Fill(int threads, const Nest& nest, T value, T* dst) {
  const int64_t stride = nest.axis(nest.rank - 1).dst;
  ForEachRow(threads, sizeof(T), nest, [=](int64_t, int64_t to, int64_t n) {
    T* out = dst + to;
    if (stride == 1) {
      WithIsa([=]() SNUG_LAMBDA { std::fill(out, out + n, value); });
    } else {
      for (int64_t i = 0; i < n; ++i) out[i * stride] = value;
    }
  });
}

// Calls fn with an unsigned integer of that size.
template <class Fn>
void WithElement(int64_t element_bytes, const Fn& fn) {
  switch (element_bytes) {
    case 1:
      return fn(uint8_t{});
    case 2:
      return fn(uint16_t{});
    case 4:
      return fn(uint32_t{});
    case 8:
      return fn(uint64_t{});
    default:
      SNUG_CHECK(false);
  }
}

}  // namespace

void CopyStrided(int threads, int64_t element_bytes, const Shape& box, const void* src, const Strides& src_strides,
                 void* dst, const Strides& dst_strides) {
  if (box.num_elements() == 0) return;
  const Nest nest = MakeNest(box, src_strides, dst_strides);
  WithElement(element_bytes, [&](auto zero) {
    using T = decltype(zero);
    Copy(threads, nest, static_cast<const T*>(src), static_cast<T*>(dst));
  });
}

void FillStrided(int threads, int64_t element_bytes, const Shape& box, const void* element, void* dst,
                 const Strides& strides) {
  if (box.num_elements() == 0) return;
  const Nest nest = MakeNest(box, strides, strides);
  WithElement(element_bytes, [&](auto zero) {
    decltype(zero) value;
    std::memcpy(&value, element, sizeof(value));
    Fill(threads, nest, value, static_cast<decltype(zero)*>(dst));
  });
}

void FillAround(int threads, int64_t element_bytes, const Shape& whole, const Shape& begin, const Shape& box,
                const void* element, void* dst, const Strides& strides) {
  // Fills slabs before and after the box, axis by axis. Each slab is within the box along the axes before it, and whole
  // along those after it.
  Shape slab = whole;
  Shape at = begin;
  for (int i = 0; i < whole.rank(); ++i) at[i] = 0;
  const auto fill = [&](int axis, int64_t from, int64_t to) {
    at[axis] = from;
    slab[axis] = to - from;
    FillStrided(threads, element_bytes, slab, element, static_cast<char*>(dst) + OffsetOf(at, strides) * element_bytes,
                strides);
  };
  for (int axis = 0; axis < whole.rank(); ++axis) {
    fill(axis, 0, begin[axis]);
    fill(axis, begin[axis] + box[axis], whole[axis]);
    at[axis] = begin[axis];
    slab[axis] = box[axis];
  }
}

}  // namespace snug::core
