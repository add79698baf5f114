#include "ops/kernels/matmul/panels.h"

#include <absl/strings/str_cat.h>
#include <absl/types/span.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/base/workers.h"
#include "ops/kernels/copy/own_format.h"
#include "ops/kernels/copy/transpose.h"
#include "ops/kernels/matmul/finish.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/needed_next.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace panels {
namespace {

// A panel is multiplied in pieces of so many rows, which leave room for those of a in the first-level cache.
constexpr int64_t kPieceDepth = 256;
// What a thread takes at a time: few enough rows that their pieces stay in the second-level cache, beside those of the
// next task, which are asked for meanwhile; and many, because all of these panels are read anew for the next ones.
constexpr int64_t kTaskRows = 48, kTaskColumns = 512;
constexpr int64_t kShortTaskRows = 96, kShort = 128;  // where rows of a have no more numbers than that
// Where sums are taken for a norm, more is asked for than strips can ask for by parts of rows, which lie apart: a strip
// asks for one part at most. Whole rows follow each other.
constexpr int64_t kSummedTaskColumns = 1024;

// Rows of a in bfloat16 become floats first: they and the sums are on the stack, which is not for more than kTaskRows
// and kTaskColumns.
template <class T>
constexpr int64_t TaskRows(int64_t k) {
  return std::is_same_v<T, float> && k <= kShort ? kShortTaskRows : kTaskRows;
}
template <class T>
constexpr int64_t TaskColumns(bool summed) {
  return std::is_same_v<T, float> && summed ? kSummedTaskColumns : kTaskColumns;
}

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
      : OwnFormat(absl::StrCat("panels:", shape.k, "x", shape.n, shape.transposed ? "t" : ""), PanelsBytes(shape)),
        shape_(shape) {}

  bool Equals(const PackedFormat& other) const override {
    const auto* panels = dynamic_cast<const PanelsFormat*>(&other);
    return panels != nullptr && panels->shape_ == shape_;
  }
  void Pack(int threads, const float* from, void* to) const override {
    PackIntoPanels(threads, shape_, from, static_cast<float*>(to));
  }
  void Pack(int threads, const BFloat16* from, void* to) const override {
    PackIntoPanels(threads, shape_, from, static_cast<float*>(to));
  }

 private:
  const PanelsShape shape_;
};

// ---- multiplication ----

// What becomes of a sum: the bias is added, and it is clamped, in registers. Other activations come after, in a sweep
// of their own.
struct Ending {
  const float* bias = nullptr;  // of the columns
  bool clamps = false;
  float least = 0, most = std::numeric_limits<float>::infinity();
};

// Does it to kRows rows of a vector of columns.
template <int kRows, class Vector>
SNUG_INLINE void End(const Ending& ending, int64_t column, Vector (&sum)[kRows]) {
  Vector bias = {};
  if (ending.bias != nullptr) std::memcpy(&bias, ending.bias + column, sizeof(Vector));
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    Vector y = sum[r];
    if (ending.bias != nullptr) y += bias;  // 0 would turn a -0 into 0
    if (ending.clamps) Clamp(ending.least, ending.most, y);
    sum[r] = y;
  }
}

// A piece of a panel.
struct PanelPiece {
  int64_t depth;
  const float* data;
  Later later;
};

// Some rows of c, for which the products with a piece are added up.
struct Sums {
  SNUG_INLINE Sums At(int64_t i, int64_t j) const {
    return {data + i * stride + j, stride, from == nullptr ? nullptr : from + i * from_stride + j, from_stride};
  }

  float* data;
  int64_t stride;
  const float* from;  // what they begin at, which may be where they go; null: 0
  int64_t from_stride;
};

// Where rows of a are, and which of their columns a piece begins with.
struct RowsOfA {
  SNUG_INLINE RowsOfA Below(int64_t i) const { return {rows + i, column}; }

  const float* const* rows;
  int64_t column;
};

// Some rows of a vector of sums.
template <int kRows, class Vector>
SNUG_INLINE void LoadSums(const Sums& c, int64_t column, Vector (&sum)[kRows]) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    sum[r] = Vector{};
    if (c.from != nullptr) std::memcpy(&sum[r], c.from + r * c.from_stride + column, sizeof(Vector));
  }
}
template <int kRows, class Vector>
SNUG_INLINE void StoreSums(const Vector (&sum)[kRows], int64_t column, const Sums& c) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) std::memcpy(c.data + r * c.stride + column, &sum[r], sizeof(Vector));
}

// What is computed of a panel's columns: so many vectors, and half a one more.
template <int kWhole, bool kHalfMore>
struct Vectors {
  static constexpr int kVectors = kWhole;
  static constexpr bool kHalf = kHalfMore;
};

// Computes so much of a panel's columns. `ending` is null unless the piece is the last.
template <int kRows, class Width, Isa kIsa>
SNUG_INLINE void MultiplyRows(const PanelPiece& piece, const RowsOfA& a, const Ending* ending, const Sums& c) {
  using Tile = GemmTile<kIsa, float>;
  using Vector = typename Tile::Vector;
  typedef float Half __attribute__((vector_size(Tile::kVectorBytes / 2)));  // NOLINT: as in gemm_tile.h
  constexpr int64_t kHalfAt = Width::kVectors * Tile::kLanes;
  const float* rows[kRows];
  Vector sum[Width::kVectors][kRows];
  Half half[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) rows[r] = a.rows[r] + a.column;
#pragma GCC unroll 2
  for (int v = 0; v < Width::kVectors; ++v) LoadSums(c, v * Tile::kLanes, sum[v]);
  if constexpr (Width::kHalf) LoadSums(c, kHalfAt, half);
  Later later = piece.later;
  const auto step = [&](int64_t p) SNUG_LAMBDA {
    const float* const columns = piece.data + p * Tile::kColumns;
    Vector b[Width::kVectors];
    Half half_b;
#pragma GCC unroll 2
    for (int v = 0; v < Width::kVectors; ++v) std::memcpy(&b[v], columns + v * Tile::kLanes, sizeof(Vector));
    if constexpr (Width::kHalf) std::memcpy(&half_b, columns + kHalfAt, sizeof(Half));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float value = rows[r][p];
#pragma GCC unroll 2
      for (int v = 0; v < Width::kVectors; ++v) sum[v][r] += value * b[v];
      if constexpr (Width::kHalf) half[r] += value * half_b;
    }
  };
  int64_t p = 0;
  for (; p + Later::kSteps <= piece.depth; p += Later::kSteps) {
    later.Ask<kIsa>();
#pragma GCC unroll 4
    for (int64_t l = 0; l < Later::kSteps; ++l) step(p + l);
  }
  for (; p < piece.depth; ++p) step(p);
#pragma GCC unroll 2
  for (int v = 0; v < Width::kVectors; ++v) {
    if (ending != nullptr) End(*ending, v * Tile::kLanes, sum[v]);
    StoreSums(sum[v], v * Tile::kLanes, c);
  }
  if constexpr (Width::kHalf) {
    if (ending != nullptr) End(*ending, kHalfAt, half);
    StoreSums(half, kHalfAt, c);
  }
}

// The same for `rows` rows, at most kRows.
template <int kRows, class Width, Isa kIsa>
SNUG_INLINE void MultiplyStrip(int64_t rows, const PanelPiece& piece, const RowsOfA& a, const Ending* ending,
                               const Sums& c) {
  if (rows == kRows) return MultiplyRows<kRows, Width, kIsa>(piece, a, ending, c);
  if constexpr (kRows > 1) MultiplyStrip<kRows - 1, Width, kIsa>(rows, piece, a, ending, c);
}

// The same for the last columns of a row, behind which c has the next row.
template <Isa kIsa>
SNUG_INLINE void MultiplyEdge(int64_t rows, int64_t columns, const PanelPiece& piece, const RowsOfA& a,
                              const Ending* ending, const Sums& c) {
  using Tile = GemmTile<kIsa, float>;
  alignas(64) float sums[Tile::kRows * Tile::kColumns] = {};
  alignas(64) float bias[Tile::kColumns] = {};
  Ending here = {};
  if (ending != nullptr) {
    here = *ending;
    if (ending->bias != nullptr) here.bias = std::copy_n(ending->bias, columns, bias) - columns;
  }
  for (int64_t l = 0; l < rows && c.from != nullptr; ++l) {
    std::copy_n(c.from + l * c.from_stride, columns, sums + l * Tile::kColumns);
  }
  MultiplyStrip<Tile::kRows, Vectors<2, false>, kIsa>(
      rows, piece, a, ending == nullptr ? nullptr : &here,
      {sums, Tile::kColumns, c.from == nullptr ? nullptr : sums, Tile::kColumns});
  for (int64_t l = 0; l < rows; ++l) std::copy_n(sums + l * Tile::kColumns, columns, c.data + l * c.stride);
}

// A rectangle of c.
struct Rectangle {
  int64_t i, j, rows, columns;
};

// The first strips of a panel, as many as it has vectors, ask for the next one, each for an equal part of it, but for
// rows that are left over of Later::kSteps.
template <Isa kIsa>
constexpr int64_t kStripsForPanel = GemmTile<kIsa, float>::kColumns / GemmTile<kIsa, float>::kLanes;

// The others ask for what is needed after the rectangle. Returns how many there are, for all pieces.
template <Isa kIsa>
SNUG_INLINE int64_t StripsThatAsk(const Pieces& pieces, int64_t k, const Rectangle& at) {
  using Tile = GemmTile<kIsa, float>;
  const int64_t of_panel = std::max<int64_t>(0, Parts(at.rows, Tile::kRows) - kStripsForPanel<kIsa>);
  return Parts(at.columns, Tile::kColumns) * of_panel * Parts(k, pieces.rows);
}

// Adds up the products of `depth` columns of a with the rows of B from p on. `ending` is null unless they are the last
// ones; then its bias is that of all columns of c.
template <Isa kIsa, class T>
SNUG_INLINE void MultiplyPiece(const PanelsCall<T>& call, const Rectangle& at, int64_t p, int64_t depth,
                               const RowsOfA& a, const Ending* ending, const Sums& c, AskingForNext& next) {
  using Tile = GemmTile<kIsa, float>;
  const Pieces pieces(call.n, call.k);
  // Strips are as equal as can be: seven times seven rows take less than six times eight and one.
  const int64_t strips = Parts(at.rows, Tile::kRows);
  for (int64_t j = 0; j < at.columns; j += Tile::kColumns) {
    const float* panel = call.panels + p * pieces.columns + (at.j + j) * depth;
    const int64_t columns = std::min(Tile::kColumns, at.columns - j);
    Ending here = {};
    if (ending != nullptr) {
      here = *ending;
      if (here.bias != nullptr) here.bias += at.j + j;
    }
    const Ending* const last = ending == nullptr ? nullptr : &here;
    for (int64_t strip = 0; strip < strips; ++strip) {
      const int64_t i = at.rows * strip / strips;
      const int64_t rows = at.rows * (strip + 1) / strips - i;
      const auto* const of_panel = reinterpret_cast<const char*>(panel);
      const Later later =
          strip < kStripsForPanel<kIsa>
              ? Later(of_panel + depth * (Tile::kVectorBytes * (kStripsForPanel<kIsa> + strip)), Later::kLine)
              : next.Take(Later::TimesOf<kIsa>(depth), of_panel);
      const PanelPiece piece = {depth, panel, later};
      const Sums sums = c.At(i, j);
      if (columns == Tile::kColumns) {
        MultiplyStrip<Tile::kRows, Vectors<2, false>, kIsa>(rows, piece, a.Below(i), last, sums);
      } else if (columns == Tile::kLanes) {
        MultiplyStrip<Tile::kRows, Vectors<1, false>, kIsa>(rows, piece, a.Below(i), last, sums);
      } else if (2 * columns == 3 * Tile::kLanes) {
        MultiplyStrip<Tile::kRows, Vectors<1, true>, kIsa>(rows, piece, a.Below(i), last, sums);
      } else {
        MultiplyEdge<kIsa>(rows, columns, piece, a.Below(i), last, sums);
      }
    }
  }
}

template <class T>
SNUG_INLINE const T* RowOf(const PanelsCall<T>& call, int64_t i) {
  return call.scattered_a == nullptr ? call.a + i * call.k : call.scattered_a->Row(i);
}

template <Isa kIsa>
SNUG_INLINE void MultiplyRectangle(const PanelsCall<float>& call, const Rectangle& at,
                                   absl::Span<const NeededNext> needed) {
  const Pieces pieces(call.n, call.k);
  AskingForNext next(needed, StripsThatAsk<kIsa>(pieces, call.k, at));
  const float* rows[kShortTaskRows];
  for (int64_t i = 0; i < at.rows; ++i) rows[i] = RowOf(call, at.i + i);
  float* c = call.c + at.i * call.n + at.j;
  Sums sums = {c, call.n, call.addend == nullptr ? nullptr : call.addend + at.i * call.n + at.j, call.n};
  Ending ending = {.bias = call.bias};
  ending.clamps = call.activation == Activation::kRelu || call.activation == Activation::kRelu6;
  if (call.activation == Activation::kRelu6) ending.most = 6;
  const bool ends = ending.bias != nullptr || ending.clamps;
  int64_t p = 0;
  do {  // once where there is nothing to add up, too
    const int64_t depth = std::min(pieces.rows, call.k - p);
    const bool last = p + depth == call.k;
    MultiplyPiece<kIsa>(call, at, p, depth, {rows, p}, last && ends ? &ending : nullptr, sums, next);
    sums.from = c;
    p += depth;
  } while (p < call.k);
  if (call.activation != Activation::kSigmoid && call.activation != Activation::kTanh) return;
  FinishProduct(IsaConstant<kIsa>(), call.activation, at.rows, at.columns, c, call.n,
                static_cast<const float*>(nullptr), c, call.n);
}

// The rows of a become floats piece by piece, and the sums are rounded in a last sweep.
template <Isa kIsa>
SNUG_INLINE void MultiplyRectangle(const PanelsCall<BFloat16>& call, const Rectangle& at,
                                   absl::Span<const NeededNext> needed) {
  using Vector = typename GemmTile<kIsa, float>::Vector;
  constexpr int64_t kLanes = GemmTile<kIsa, float>::kLanes;
  alignas(64) float a[kTaskRows * kPieceDepth];
  alignas(64) float sums[kTaskRows * kTaskColumns];
  const float* rows[kTaskRows];
  const Pieces pieces(call.n, call.k);
  const int64_t sums_row = PaddedToPanels<float>(at.columns);
  AskingForNext next(needed, StripsThatAsk<kIsa>(pieces, call.k, at));
  for (int64_t i = 0; i < at.rows && call.addend != nullptr; ++i) {
    const BFloat16* from = call.addend + (at.i + i) * call.n + at.j;
    for (int64_t j = 0; j < at.columns; ++j) sums[i * sums_row + j] = static_cast<float>(from[j]);
  }
  int64_t p = 0;
  do {
    const int64_t depth = std::min(pieces.rows, call.k - p);
    for (int64_t i = 0; i < at.rows; ++i) {
      const BFloat16* from = RowOf(call, at.i + i) + p;
      float* to = a + i * depth;
      rows[i] = to;
      int64_t l = 0;
      for (; l + kLanes <= depth; l += kLanes) {
        Vector v;
        LoadFloats(from + l, v);
        StoreFloats(v, to + l);
      }
      for (; l < depth; ++l) to[l] = static_cast<float>(from[l]);
    }
    const bool begun = p > 0 || call.addend != nullptr;
    MultiplyPiece<kIsa>(call, at, p, depth, {rows, 0}, nullptr, {sums, sums_row, begun ? sums : nullptr, sums_row},
                        next);
    p += depth;
  } while (p < call.k);
  FinishProduct(IsaConstant<kIsa>(), call.activation, at.rows, at.columns, sums, sums_row,
                call.bias == nullptr ? nullptr : call.bias + at.j, call.c + at.i * call.n + at.j, call.n);
}

// How c is cut into rectangles: with several beside each other a is read as many times, so that has to make the thread
// with the most have noticeably less.
struct Cut {
  Cut(int threads, int64_t m, int64_t n, int64_t most_rows, int64_t most_columns) {
    row_tasks = Parts(m, most_rows);
    rows = Parts(m, row_tasks);
    const int64_t panels = Parts(n, kPanel<float>);
    const int64_t fewest = Parts(n, most_columns);
    int64_t least = 0;
    for (int64_t tasks = fewest; tasks <= std::min(panels, fewest + 2 * threads); ++tasks) {
      const int64_t width = Parts(panels, tasks);
      const int64_t most = Parts(row_tasks * Parts(panels, width), threads) * rows * width;
      if (tasks > fewest && 8 * most > 7 * least) continue;
      least = most;
      columns = width * kPanel<float>;
      column_tasks = Parts(panels, width);
    }
  }

  int64_t tasks() const { return row_tasks * column_tasks; }
  // Rectangles follow each other downwards, so that a thread's next one has the same panels.
  template <class T>
  Rectangle At(const PanelsCall<T>& call, int64_t task) const {
    const int64_t i = task % row_tasks * rows, j = task / row_tasks * columns;
    return {i, j, std::min(rows, call.m - i), std::min(columns, call.n - j)};
  }

  int64_t rows = 0, row_tasks = 0;
  int64_t columns = 0, column_tasks = 0;
};

// The rows of rectangles are the parts in which columns of c are measured.
template <class T>
PartMoments MomentsOf(const PanelsCall<T>& call, const Cut& cut) {
  const PartMoments moments(cut.row_tasks, call.n, call.moments);
  for (int64_t part = 0; moments.asked() && part < cut.row_tasks; ++part) {
    moments.SetRows(part, std::min(cut.rows, call.m - part * cut.rows));
  }
  return moments;
}

// What is asked for during a rectangle: what it reads once its products are done, and what the next one reads and
// writes beside its panels. Scattered rows of a are not asked for; and c comes last, because nothing waits for what is
// stored.
using Needed = std::array<NeededNext, 5>;

// The part of a matrix that is like c.
template <class T>
NeededNext NeededOf(const T* matrix, const PanelsCall<T>& call, const Rectangle& at) {
  return NeededRows(matrix + at.i * call.n + at.j, at.rows, at.columns, call.n);
}

template <class T>
void AskAtTheEnd(const PanelsCall<T>& call, const Rectangle& at, Needed& needed) {
  if (call.norm.x == nullptr) return;
  needed[0] = NeededOf(call.norm.x, call, at);
  if (call.norm.y != nullptr) needed[1] = NeededOf(call.norm.y, call, at);
}

template <class T>
void AskForNext(const PanelsCall<T>& call, const Rectangle& at, Needed& needed) {
  if (call.scattered_a == nullptr) needed[2] = NeededRows(call.a + at.i * call.k, at.rows, call.k, call.k);
  if (call.addend != nullptr && call.addend != call.c) needed[3] = NeededOf(call.addend, call, at);
  needed[4] = NeededOf<T>(call.c, call, at);
}

}  // namespace
}  // namespace panels

Layout PanelsLayout(const PanelsShape& shape) { return Layout::Packed(std::make_shared<panels::PanelsFormat>(shape)); }

bool IsPanels(const Layout& layout) {
  return dynamic_cast<const panels::PanelsFormat*>(layout.packed.get()) != nullptr;
}

template <class T>
void PackIntoPanels(int threads, const PanelsShape& s, const T* from, float* panels) {
  const panels::Pieces pieces(s.n, s.k);
  const StridedMatrix<T> b = s.transposed ? StridedMatrix<T>{from, 1, s.k} : StridedMatrix<T>{from, s.n, 1};
  ParallelFor(threads, Parts(s.n, kPanel<float>), 1, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      constexpr int64_t kWidth = GemmTile<isa(), float>::kColumns;
      for (int64_t j = begin * kPanel<float>; j < end * kPanel<float>; j += kWidth) {
        for (int64_t p = 0; p < s.k; p += pieces.rows) {
          const int64_t rows = std::min(pieces.rows, s.k - p);
          panels::PackPiece<kWidth>(rows, std::clamp<int64_t>(s.n - j, 0, kWidth), b.At(p, j),
                                    panels + p * pieces.columns + j * rows);
        }
      }
    });
  });
}

int64_t PanelsBytes(const PanelsShape& shape) {
  return shape.k * PaddedToPanels<float>(shape.n) * static_cast<int64_t>(sizeof(float));
}

template <class T>
void MultiplyByPanels(int threads, const PanelsCall<T>& call) {
  const panels::Cut cut(threads, call.m, call.n, panels::TaskRows<T>(call.k),
                        panels::TaskColumns<T>(call.norm.x != nullptr));
  const PartMoments moments = panels::MomentsOf(call, cut);
  const PartGradients<T> gradients(cut.row_tasks, call.n, call.norm);
  ForEachWorker(threads, cut.tasks(), [&](int64_t /*worker*/, int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const panels::Rectangle at = cut.At(call, task);
      panels::Needed needed = {};
      panels::AskAtTheEnd(call, at, needed);
      if (task + 1 < end) panels::AskForNext(call, cut.At(call, task + 1), needed);
      WithIsa([&](auto isa) SNUG_LAMBDA { panels::MultiplyRectangle<isa()>(call, at, needed); });
      if (gradients.asked()) {
        WithIsa([&](auto isa) SNUG_LAMBDA {
          gradients.template Take<isa()>(at.i / cut.rows, {at.i, at.j, at.rows, at.columns}, call.c);
        });
      }
      if (!moments.asked()) continue;
      WithIsa([&](auto isa) SNUG_LAMBDA {
        const T* const c = call.c + at.i * call.n + at.j;
        moments.Measure<isa()>(at.i / cut.rows, at.j, at.columns, at.rows,
                               [=](int64_t i) SNUG_LAMBDA { return c + i * call.n; });
      });
    }
  });
  if (moments.asked()) moments.PutTogether(threads);
  if (gradients.asked()) gradients.PutTogether(threads);
}

template <class T>
int64_t PanelsMomentsBytes(int64_t m, int64_t n, int64_t k) {
  return PartMoments::WorkspaceBytes(Parts(m, panels::TaskRows<T>(k)), n);
}

template <class T>
int64_t PanelsNormBytes(int64_t m, int64_t n, int64_t k) {
  return PartGradients<T>::WorkspaceBytes(Parts(m, panels::TaskRows<T>(k)), n);
}

void MultiplyByPanelsAndAsk(const PanelsCall<float>& call, absl::Span<const NeededNext> next) {
  SNUG_CHECK(call.m <= panels::kShortTaskRows);
  WithIsa([&](auto isa) SNUG_LAMBDA { panels::MultiplyRectangle<isa()>(call, {0, 0, call.m, call.n}, next); });
}

template void PackIntoPanels(int, const PanelsShape&, const float*, float*);
template void PackIntoPanels(int, const PanelsShape&, const BFloat16*, float*);
template void MultiplyByPanels(int, const PanelsCall<float>&);
template void MultiplyByPanels(int, const PanelsCall<BFloat16>&);
template int64_t PanelsMomentsBytes<float>(int64_t, int64_t, int64_t);
template int64_t PanelsMomentsBytes<BFloat16>(int64_t, int64_t, int64_t);
template int64_t PanelsNormBytes<float>(int64_t, int64_t, int64_t);
template int64_t PanelsNormBytes<BFloat16>(int64_t, int64_t, int64_t);

}  // namespace snug::core
