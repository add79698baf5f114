#include "ops/kernels/matmul/panels.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "ops/kernels/copy/own_format.h"
#include "ops/kernels/matmul/finish.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/isa.h"
#include "ops/kit/transpose.h"

namespace snug::core {
namespace panels {
namespace {

// A panel is multiplied in pieces of so many rows, which leave room for those of a in the first-level cache.
constexpr int64_t kPieceDepth = 256;
// What a thread takes at a time: few enough rows that their pieces stay in the second-level cache, and many, because
// all of these panels are read anew for the next ones.
constexpr int64_t kTaskRows = 96;
constexpr int64_t kTaskColumns = 512;

// B as it is packed: its rows in pieces, in each piece the panels one after the other, each [rows of the piece][width],
// in the sequence in which a thread reads them.
struct Pieces {
  Pieces(int64_t n, int64_t k) : columns(PaddedToPanels<float>(n)), rows(EqualPart(k, kPieceDepth, 8)) {}
  int64_t columns;
  int64_t rows;  // of B in a piece; the last one may have fewer
};

// ---- packing ----

// Packs b [rows, columns] into a panel of kWidth columns, of which those that are missing are 0.
template <int64_t kWidth, class T>
SNUG_INLINE void PackPiece(int64_t rows, int64_t columns, StridedMatrix<T> b, float* panel) {
  if (b.row != 1 || columns < kWidth) return PackPanel<float, kWidth>(rows, columns, b, panel);
  for (int64_t l = 0; l < kWidth; l += 8) TransposeRows<8, 8>(rows, b.data + l * b.col, b.col, panel + l, kWidth);
}

class PanelsFormat : public OwnFormat {
 public:
  explicit PanelsFormat(const PanelsShape& shape)
      : OwnFormat(absl::StrCat("panels:", shape.k, "x", shape.n, shape.transposed ? "t" : ""),
                  shape.k * PaddedToPanels<float>(shape.n) * static_cast<int64_t>(sizeof(float))),
        shape_(shape) {}

  bool Equals(const PackedFormat& other) const override {
    const auto* panels = dynamic_cast<const PanelsFormat*>(&other);
    return panels != nullptr && panels->shape_ == shape_;
  }
  void Pack(int threads, const float* from, void* to) const override { PackAny(threads, from, to); }
  void Pack(int threads, const BFloat16* from, void* to) const override { PackAny(threads, from, to); }

 private:
  template <class T>
  void PackAny(int threads, const T* from, void* to) const {
    float* panels = static_cast<float*>(to);
    const PanelsShape& s = shape_;
    const Pieces pieces(s.n, s.k);
    const StridedMatrix<T> b = s.transposed ? StridedMatrix<T>{from, 1, s.k} : StridedMatrix<T>{from, s.n, 1};
    ParallelFor(threads, Parts(s.n, kPanel<float>), 1, [&](int64_t begin, int64_t end) {
      WithIsa([&](auto isa) SNUG_LAMBDA {
        constexpr int64_t kWidth = GemmTile<isa(), float>::kColumns;
        for (int64_t j = begin * kPanel<float>; j < end * kPanel<float>; j += kWidth) {
          for (int64_t p = 0; p < s.k; p += pieces.rows) {
            const int64_t rows = std::min(pieces.rows, s.k - p);
            PackPiece<kWidth>(rows, std::clamp<int64_t>(s.n - j, 0, kWidth), b.At(p, j),
                              panels + p * pieces.columns + j * rows);
          }
        }
      });
    });
  }

  const PanelsShape shape_;
};

// ---- multiplication ----

// What becomes of a sum: the bias is added, and it is clamped, in registers. Other activations come after, in a sweep
// of their own.
struct Ending {
  const float* bias = nullptr;  // of the columns
  float least = -std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::infinity();
};

template <int kRows, int kVectors, Isa kIsa>
SNUG_INLINE void End(const Ending& ending, typename GemmTile<kIsa, float>::Vector (&sum)[kRows][kVectors]) {
  using Tile = GemmTile<kIsa, float>;
  using Vector = typename Tile::Vector;
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    Vector bias = {};
    if (ending.bias != nullptr) std::memcpy(&bias, ending.bias + v * Tile::kLanes, sizeof(Vector));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      Vector y = sum[r][v] + bias;
      y = y < ending.least ? Vector{} + ending.least : y;
      sum[r][v] = y > ending.most ? Vector{} + ending.most : y;
    }
  }
}

// A piece of a panel, and where half of one lies that is read later: it is asked for on the way, because weights often
// come from memory.
struct PanelPiece {
  int64_t depth;
  const float* data;
  const float* later;
};

// Some rows of c, for which the products with a piece are added up.
struct Sums {
  float* data;
  int64_t stride;
  bool accumulate;  // otherwise they begin at 0
};

// Computes kVectors vectors of a panel's columns. `a` has the columns of the piece; its rows are `a_stride` apart.
// `ending` is null unless the piece is the last.
template <int kRows, int kVectors, Isa kIsa>
SNUG_INLINE void MultiplyRows(const PanelPiece& piece, const float* a, int64_t a_stride, const Ending* ending,
                              const Sums& c) {
  using Tile = GemmTile<kIsa, float>;
  using Vector = typename Tile::Vector;
  const float* rows[kRows];
  Vector sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    rows[r] = a + r * a_stride;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = Vector{};
    if (!c.accumulate) continue;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(&sum[r][v], c.data + r * c.stride + v * Tile::kLanes, sizeof(Vector));
    }
  }
  for (int64_t p = 0; p < piece.depth; ++p) {
    Vector b[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(&b[v], piece.data + p * Tile::kColumns + v * Tile::kLanes, sizeof(Vector));
    }
    __builtin_prefetch(piece.later + p * Tile::kLanes, 0, 2);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float value = rows[r][p];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] += value * b[v];
    }
  }
  if (ending != nullptr) End<kRows, kVectors, kIsa>(*ending, sum);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(c.data + r * c.stride + v * Tile::kLanes, &sum[r][v], sizeof(Vector));
    }
  }
}

// The same for `rows` rows, at most kRows.
template <int kRows, int kVectors, Isa kIsa>
SNUG_INLINE void MultiplyStrip(int64_t rows, const PanelPiece& piece, const float* a, int64_t a_stride,
                               const Ending* ending, const Sums& c) {
  if (rows == kRows) return MultiplyRows<kRows, kVectors, kIsa>(piece, a, a_stride, ending, c);
  if constexpr (kRows > 1) MultiplyStrip<kRows - 1, kVectors, kIsa>(rows, piece, a, a_stride, ending, c);
}

// The same for the last columns of a row, behind which c has the next row.
template <Isa kIsa>
SNUG_INLINE void MultiplyEdge(int64_t rows, int64_t columns, const PanelPiece& piece, const float* a, int64_t a_stride,
                              const Ending* ending, const Sums& c) {
  using Tile = GemmTile<kIsa, float>;
  alignas(64) float sums[Tile::kRows * Tile::kColumns] = {};
  alignas(64) float bias[Tile::kColumns] = {};
  Ending here = {};
  if (ending != nullptr) {
    here = *ending;
    if (ending->bias != nullptr) here.bias = std::copy_n(ending->bias, columns, bias) - columns;
  }
  for (int64_t l = 0; l < rows && c.accumulate; ++l) {
    std::copy_n(c.data + l * c.stride, columns, sums + l * Tile::kColumns);
  }
  MultiplyStrip<Tile::kRows, 2, kIsa>(rows, piece, a, a_stride, ending == nullptr ? nullptr : &here,
                                      {sums, Tile::kColumns, c.accumulate});
  for (int64_t l = 0; l < rows; ++l) std::copy_n(sums + l * Tile::kColumns, columns, c.data + l * c.stride);
}

// A rectangle of c.
struct Rectangle {
  int64_t i, j, rows, columns;
};

template <Isa kIsa>
SNUG_INLINE void MultiplyRectangle(const PanelsCall& call, const Rectangle& at) {
  using Tile = GemmTile<kIsa, float>;
  const Pieces pieces(call.n, call.k);
  // Strips are as equal as can be: seven times seven rows take less than six times eight and one.
  const int64_t strips = Parts(at.rows, Tile::kRows);
  int64_t p = 0;
  do {  // once where there is nothing to add up, too
    const int64_t depth = std::min(pieces.rows, call.k - p);
    for (int64_t j = at.j; j < at.j + at.columns; j += Tile::kColumns) {
      const float* panel = call.panels + p * pieces.columns + j * depth;
      const int64_t columns = std::min(Tile::kColumns, at.j + at.columns - j);
      Ending ending = {.bias = call.bias == nullptr ? nullptr : call.bias + j};
      if (call.activation == Activation::kRelu || call.activation == Activation::kRelu6) ending.least = 0;
      if (call.activation == Activation::kRelu6) ending.most = 6;
      const Ending* const last = p + depth == call.k ? &ending : nullptr;
      for (int64_t strip = 0; strip < strips; ++strip) {
        const int64_t i = at.i + at.rows * strip / strips;
        const int64_t rows = at.i + at.rows * (strip + 1) / strips - i;
        const float* later = strip < 2 ? panel + depth * (Tile::kColumns + strip * Tile::kLanes) : panel;
        const PanelPiece piece = {depth, panel, later};
        const Sums c = {call.c + i * call.n + j, call.n, p > 0};
        if (columns == Tile::kColumns) {
          MultiplyStrip<Tile::kRows, 2, kIsa>(rows, piece, call.a + i * call.k + p, call.k, last, c);
        } else if (columns == Tile::kLanes) {
          MultiplyStrip<Tile::kRows, 1, kIsa>(rows, piece, call.a + i * call.k + p, call.k, last, c);
        } else {
          MultiplyEdge<kIsa>(rows, columns, piece, call.a + i * call.k + p, call.k, last, c);
        }
      }
    }
    p += depth;
  } while (p < call.k);
  if (call.activation != Activation::kSigmoid && call.activation != Activation::kTanh) return;
  float* c = call.c + at.i * call.n + at.j;
  FinishProduct<float>(call.activation, at.rows, at.columns, c, call.n, nullptr, c, call.n);
}

// How c is cut into rectangles: so that the thread with the most has the least, and no smaller than that takes.
struct Cut {
  Cut(int threads, int64_t m, int64_t n) {
    row_tasks = Parts(m, kTaskRows);
    rows = Parts(m, row_tasks);
    const int64_t panels = Parts(n, kPanel<float>);
    const int64_t fewest = Parts(n, kTaskColumns);
    int64_t least = 0;
    for (int64_t tasks = fewest; tasks <= std::min(panels, fewest + 2 * threads); ++tasks) {
      const int64_t width = Parts(panels, tasks);
      const int64_t most = Parts(row_tasks * Parts(panels, width), threads) * rows * width;
      if (tasks > fewest && most >= least) continue;
      least = most;
      columns = width * kPanel<float>;
      column_tasks = Parts(panels, width);
    }
  }

  int64_t rows = 0, row_tasks = 0;
  int64_t columns = 0, column_tasks = 0;
};

}  // namespace
}  // namespace panels

Layout PanelsLayout(const PanelsShape& shape) { return Layout::Packed(std::make_shared<panels::PanelsFormat>(shape)); }

bool IsPanels(const Layout& layout) {
  return dynamic_cast<const panels::PanelsFormat*>(layout.packed.get()) != nullptr;
}

void MultiplyByPanels(int threads, const PanelsCall& call) {
  const panels::Cut cut(threads, call.m, call.n);
  ParallelFor(threads, cut.row_tasks * cut.column_tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t i = task % cut.row_tasks * cut.rows;
      const int64_t j = task / cut.row_tasks * cut.columns;
      const panels::Rectangle at = {i, j, std::min(cut.rows, call.m - i), std::min(cut.columns, call.n - j)};
      WithIsa([&](auto isa) SNUG_LAMBDA { panels::MultiplyRectangle<isa()>(call, at); });
    }
  });
}

}  // namespace snug::core
