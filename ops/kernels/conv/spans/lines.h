// Lines of images with their padding, in float, and what the parts of a convolution by spans (spans.h) have in common.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/kernels/conv/geometry.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/isa.h"

namespace snug::core::ops::spans {

inline constexpr int64_t kMostLanes = 16;
// Room for the lines that a task has at a time, of an image and of a result, in floats each: they stay in a
// second-level cache, and are small enough for a thread's stack.
inline constexpr int64_t kLinesRoom = 24 << 10;
// Sums that are in registers at once: beside them a vector of the other factor has to fit.
inline constexpr int kMostSums = 14;

// The numbers of a convolution by spans, in floats.
struct Sizes {
  explicit Sizes(const ConvGeometry& g)
      : span(g.kernel[1] * g.in_channels),
        step(g.stride[1] * g.in_channels),
        line(Room((g.out[1] - 1) * step + span)),
        result_line(Room(g.out[1] * g.out_channels)),
        lines_of_taps((g.kernel[0] - 1) * g.dilation[0] + 1),
        reach(std::max(lines_of_taps, g.stride[0])) {}
  // The last vector of a line may read and write behind it.
  static int64_t Room(int64_t floats) { return Parts(floats, kMostLanes) * kMostLanes + kMostLanes; }

  int64_t span, step;
  int64_t line, result_line;  // of an image with its padding, and of a result
  int64_t lines_of_taps;      // from the first to the last line that a pixel takes
  int64_t reach;              // the same, with those that longer steps leave out
};

// How many lanes vectors have for so many columns.
inline int64_t LanesFor(int64_t columns) {
  switch (CurrentIsa()) {
    case Isa::kAvx512:
      return columns <= 8 ? 8 : 16;
    case Isa::kAvx2:
      return 8;
    case Isa::kBaseline:
      break;
  }
  return 4;
}
inline int64_t VectorsFor(int64_t columns) { return Parts(columns, LanesFor(columns)); }

// Images are cut into bands of so many of their `lines`, where images are few, that several threads have something to
// do. What bands take of each other is little beside what they are.
inline int64_t LinesOfBand(const ConvGeometry& g, const Sizes& s, int64_t lines) {
  constexpr int64_t kLeastTasks = 16;
  const int64_t bands = Parts(kLeastTasks, std::max<int64_t>(g.batch, 1));
  return std::min(lines, std::max(Parts(lines, bands), 2 * s.reach));
}

// Gradients of weights are made in so many parts of the images, a thread each.
inline int64_t PartsOfImages(const ConvGeometry& g) {
  constexpr int64_t kMostParts = 16;
  return std::min(g.batch, kMostParts);
}

// How many of these tasks, which are alike, a thread takes at a time: what is shorter is not worth being handed out.
inline int64_t TasksInChunk(const ConvGeometry& g, int64_t tasks) {
  constexpr double kLeast = 1 << 17;  // multiply-adds
  const double of_task = std::max(1.0, g.multiply_adds() / static_cast<double>(std::max<int64_t>(tasks, 1)));
  return std::max<int64_t>(1, static_cast<int64_t>(kLeast / of_task));
}

// Calls fn, in a body of WithIsa, with the instruction set whose vectors have LanesFor(columns).
template <Isa kIsa, class Fn>
SNUG_INLINE void WithVectorFor(IsaConstant<kIsa> /*isa*/, int64_t columns, const Fn& fn) {
  if constexpr (kIsa == Isa::kAvx512) {
    if (columns <= GemmTile<Isa::kAvx2, float>::kLanes) return fn(IsaConstant<Isa::kAvx2>());
  }
  fn(IsaConstant<kIsa>());
}

// Calls fn(first, count) for rows [0, n) in nearly equal parts, of kMostSums at most.
template <class Fn>
SNUG_INLINE void ForEachTile(int64_t n, const Fn& fn) {
  const int64_t tiles = Parts(n, kMostSums);
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t first = n * tile / tiles;
    fn(first, n * (tile + 1) / tiles - first);
  }
}

// Calls fn with count, 1 to kMost, as a constant.
template <int kMost, class Fn>
SNUG_INLINE void WithCount(int64_t count, const Fn& fn) {
  if (count == kMost) return fn(std::integral_constant<int, kMost>());
  if constexpr (kMost > 1) WithCount<kMost - 1>(count, fn);
}

// Copies lines [first, first + count) of an image with its padding, as far as they have room.
template <class T>
SNUG_INLINE void CopyLines(const ConvGeometry& g, const Sizes& s, const T* image, int64_t first, int64_t count,
                           float* to) {
  const int64_t before = g.pad_begin[1] * g.in_channels;
  const int64_t taken = std::min(g.in[1] * g.in_channels, s.line - before);
  for (int64_t i = 0; i < count; ++i, to += s.line) {
    const int64_t from = first + i - g.pad_begin[0];
    if (from < 0 || from >= g.in[0]) {
      std::fill_n(to, s.line, 0.0F);
      continue;
    }
    const T* const line = image + from * g.in[1] * g.in_channels;
    std::fill_n(to, before, 0.0F);
    SNUG_INDEPENDENT
    for (int64_t j = 0; j < taken; ++j) to[before + j] = static_cast<float>(line[j]);
    std::fill_n(to + before + taken, s.line - before - taken, 0.0F);
  }
}

// Lines of results, or of their gradients, in float: where they are, or a copy.
struct Results {
  const float* data;
  int64_t line;  // how far it is to the next one
};

// Returns `count` lines of results. They are copied into `room` if they are no floats, or if `copy` says so; what is
// behind a copied line is 0.
template <class T>
SNUG_INLINE Results ResultsIn(const ConvGeometry& g, const Sizes& s, const T* results, int64_t count, bool copy,
                              float* room) {
  const int64_t taken = g.out[1] * g.out_channels;
  if constexpr (std::is_same_v<T, float>) {
    if (!copy) return {results, taken};
  }
  for (int64_t i = 0; i < count; ++i) {
    float* const to = room + i * s.result_line;
    SNUG_INDEPENDENT
    for (int64_t j = 0; j < taken; ++j) to[j] = static_cast<float>(results[i * taken + j]);
    std::fill_n(to + taken, s.result_line - taken, 0.0F);
  }
  return {room, s.result_line};
}

// Adds to each of kRows sums the products of a row's numbers and a panel's vectors, one after the other.
template <class Vector, int kRows>
SNUG_INLINE void AddProducts(int64_t depth, const float* a, int64_t row, const float* panel, Vector (&sums)[kRows]) {
  constexpr auto kLanes = static_cast<int64_t>(sizeof(Vector) / sizeof(float));
  for (int64_t k = 0; k < depth; ++k) {
    Vector b;
    std::memcpy(&b, panel + k * kLanes, sizeof(Vector));
#pragma GCC unroll 14
    for (int r = 0; r < kRows; ++r) sums[r] += a[r * row + k] * b;
  }
}

}  // namespace snug::core::ops::spans
