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

constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

// A panel is multiplied in pieces of so many rows, which leave room for those of a in the first-level cache.
constexpr int64_t kPieceDepth = 256;
// What a thread takes at a time: few enough rows that their pieces stay in the second-level cache, beside those of the
// next task, which are asked for meanwhile; and many, because all of these panels are read anew for the next ones. 7 x
// 7 pixels of an image are taken at once.
constexpr int64_t kTaskRows = 50, kTaskColumns = 512;
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
// in the sequence in which a thread reads them. Pieces end where parts of the rows of a do.
struct Pieces {
  Pieces(int64_t n, int64_t k, int64_t parts)
      : columns(PaddedToPanels<float>(n)),
        k(k),
        part(std::max<int64_t>(1, k / parts)),
        rows(EqualPart(part, kPieceDepth, 8)) {}

  // How many rows of B the piece has that begins at row p.
  int64_t DepthAt(int64_t p) const { return std::min({rows, part - p % part, k - p}); }
  int64_t count() const { return Parts(k, part) * Parts(part, rows); }

  int64_t columns;
  int64_t k;
  int64_t part;  // rows of B for one part of a's
  int64_t rows;  // of B in a piece; the last one of a part may have fewer
};

// ---- packing ----

// Packs b [rows, columns] into a panel of kWidth columns, of which those that are missing are 0.
template <int64_t kWidth, class T>
SNUG_INLINE void PackPiece(int64_t rows, int64_t columns, StridedMatrix<T> b, float* panel) {
  if (b.row != 1 || columns < kWidth) return PackPanel<float, kWidth>(rows, columns, b, panel);
  for (int64_t l = 0; l < kWidth; l += 8) TransposeRows<8, 8>(rows, b.data + l * b.col, b.col, panel + l, kWidth);
}

std::string PartsOf(const PanelsShape& shape) { return shape.parts == 1 ? "" : absl::StrCat("/", shape.parts); }

// What is packed from a row and a column of B on, up to the last row of the part.
template <class T>
StridedMatrix<T> PieceAt(const PanelsShape& s, const T* from, int64_t p, int64_t j) {
  if (!s.transposed) return StridedMatrix<T>{from, s.n, 1}.At(p, j);
  const int64_t of_part = std::max<int64_t>(1, s.k / s.parts);
  return StridedMatrix<T>{from + p / of_part, s.parts, s.k}.At(p % of_part, j);
}

class PanelsFormat : public OwnFormat {
 public:
  explicit PanelsFormat(const PanelsShape& shape)
      : OwnFormat(absl::StrCat("panels:", shape.k, "x", shape.n, shape.transposed ? "t" : "", PartsOf(shape)),
                  PanelsBytes(shape)),
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
    later.Ask();
#pragma GCC unroll 2
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

// The first strips of a panel ask for the next one, each for an equal part of it, but for rows that are left over of
// Later::kSteps. Where strips are many, as many ask as need do so at a line's distance, and what they ask for comes
// from memory while they multiply. Where they are few, no more than two ask, for as much more, which leaves others; one
// alone asks for no more than two lines at a time, which on AVX-512 leaves half of the panel.
template <Isa kIsa>
constexpr int64_t kManyAsk = (Later::kSteps * (GemmTile<kIsa, float>::kColumns) * kFloat) / Later::kLine;
template <Isa kIsa>
constexpr int64_t StripsForPanel(int64_t strips) {
  if (strips > kManyAsk<kIsa> + 1) return kManyAsk<kIsa>;
  return std::min<int64_t>({strips, kManyAsk<kIsa>, 2});
}

// What one of them asks for.
template <Isa kIsa>
SNUG_INLINE Later PartOfNextPanel(const float* panel, int64_t depth, int64_t strip, int64_t asking) {
  const int64_t panel_bytes = depth * GemmTile<kIsa, float>::kColumns * kFloat;
  return {reinterpret_cast<const char*>(panel) + panel_bytes + panel_bytes * strip / asking,
          Later::kLine * (kManyAsk<kIsa> / asking)};
}

// The others ask for what is needed after the rectangle. Returns how many there are, for all pieces.
template <Isa kIsa>
SNUG_INLINE int64_t StripsThatAsk(const Pieces& pieces, const Rectangle& at) {
  using Tile = GemmTile<kIsa, float>;
  const int64_t strips = Parts(at.rows, Tile::kRows);
  return Parts(at.columns, Tile::kColumns) * (strips - StripsForPanel<kIsa>(strips)) * pieces.count();
}

// Adds up the products of `depth` columns of a with the rows of B from p on. `ending` is null unless they are the last
// ones; then its bias is that of all columns of c.
template <Isa kIsa, class T>
SNUG_INLINE void MultiplyPiece(const PanelsCall<T>& call, const Rectangle& at, int64_t p, int64_t depth,
                               const RowsOfA& a, const Ending* ending, const Sums& c, AskingForNext& next) {
  using Tile = GemmTile<kIsa, float>;
  const int64_t packed_columns = PaddedToPanels<float>(call.n);
  // Strips are as equal as can be: seven times seven rows take less than six times eight and one.
  const int64_t strips = Parts(at.rows, Tile::kRows), for_panel = StripsForPanel<kIsa>(strips);
  for (int64_t j = 0; j < at.columns; j += Tile::kColumns) {
    const float* panel = call.panels + p * packed_columns + (at.j + j) * depth;
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
      const Later later = strip < for_panel ? PartOfNextPanel<kIsa>(panel, depth, strip, for_panel)
                                            : next.Take(Later::TimesOf(depth), panel);
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

// Sets rows[i] to where the i-th row of a rectangle begins, or that part of it.
template <class T>
SNUG_INLINE void FindRows(const PanelsCall<T>& call, const Rectangle& at, int64_t part, const T** rows) {
  if (call.scattered_a != nullptr) {
    return call.scattered_a->Find(part, at.i, absl::MakeSpan(rows, static_cast<size_t>(at.rows)));
  }
  for (int64_t i = 0; i < at.rows; ++i) rows[i] = call.a + (at.i + i) * call.k;
}

template <Isa kIsa>
SNUG_INLINE void MultiplyRectangle(const PanelsCall<float>& call, const Rectangle& at,
                                   absl::Span<const NeededNext> needed) {
  const Pieces pieces(call.n, call.k, call.parts);
  AskingForNext next(needed, StripsThatAsk<kIsa>(pieces, at));
  const float* rows[kShortTaskRows];
  float* c = call.c + at.i * call.n + at.j;
  Sums sums = {c, call.n, call.addend == nullptr ? nullptr : call.addend + at.i * call.n + at.j, call.n};
  Ending ending = {.bias = call.bias};
  ending.clamps = call.activation == Activation::kRelu || call.activation == Activation::kRelu6;
  if (call.activation == Activation::kRelu6) ending.most = 6;
  const bool ends = ending.bias != nullptr || ending.clamps;
  int64_t p = 0;
  do {  // once where there is nothing to add up, too
    const int64_t depth = pieces.DepthAt(p), column = p % pieces.part;
    const bool last = p + depth == call.k;
    if (column == 0) FindRows(call, at, p / pieces.part, rows);
    MultiplyPiece<kIsa>(call, at, p, depth, {rows, column}, last && ends ? &ending : nullptr, sums, next);
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
  const BFloat16* narrow[kTaskRows];
  const Pieces pieces(call.n, call.k, call.parts);
  const int64_t sums_row = PaddedToPanels<float>(at.columns);
  AskingForNext next(needed, StripsThatAsk<kIsa>(pieces, at));
  for (int64_t i = 0; i < at.rows && call.addend != nullptr; ++i) {
    const BFloat16* from = call.addend + (at.i + i) * call.n + at.j;
    for (int64_t j = 0; j < at.columns; ++j) sums[i * sums_row + j] = static_cast<float>(from[j]);
  }
  int64_t p = 0;
  do {
    const int64_t depth = pieces.DepthAt(p), column = p % pieces.part;
    if (column == 0) FindRows(call, at, p / pieces.part, narrow);
    for (int64_t i = 0; i < at.rows; ++i) {
      const BFloat16* from = narrow[i] + column;
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

// How c is cut into rectangles. With several beside each other a is read as many times, and with more below each other
// the panels are, so either has to make the thread with the most have noticeably less.
class Cut {
 public:
  // `by_threads`: there may be more rectangles below each other than have to be, so that threads have as many each.
  Cut(int threads, int64_t m, int64_t n, int64_t most_rows, int64_t most_columns, bool by_threads) {
    const int64_t fewest = Parts(m, most_rows);
    TryBesideEachOther(threads, m, n, fewest, most_columns, 0);
    const int64_t even = Parts(fewest, threads) * threads;
    if (by_threads && even > fewest) TryBesideEachOther(threads, m, n, even, most_columns, kGainBelow);
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

 private:
  // What is less by that part is noticeably less. Fewer rows than the least take as long as these.
  static constexpr int64_t kGainBeside = 8, kGainBelow = 16;
  static constexpr int64_t kLeastRows = 8;

  // Takes the best of some ways with so many rectangles below each other, if one of them is better than what it was.
  // The one with the fewest beside each other has to be better by a `gain`-th part, the others by more.
  void TryBesideEachOther(int threads, int64_t m, int64_t n, int64_t below, int64_t most_columns, int64_t gain) {
    const int64_t height = Parts(m, below), tasks_below = Parts(m, height);
    const int64_t panels = Parts(n, kPanel<float>), fewest = Parts(n, most_columns);
    for (int64_t beside = fewest; beside <= std::min(panels, fewest + 2 * threads); ++beside) {
      const int64_t width = Parts(panels, beside), tasks_beside = Parts(panels, width);
      const int64_t most = Parts(tasks_below * tasks_beside, threads) * std::max(height, kLeastRows) * width;
      const bool is_worse = gain > 0 && gain * most > (gain - 1) * most_of_thread_;
      gain = kGainBeside;
      if (is_worse) continue;
      most_of_thread_ = most;
      rows = height;
      row_tasks = tasks_below;
      columns = width * kPanel<float>;
      column_tasks = tasks_beside;
    }
  }

  int64_t most_of_thread_ = 0;
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
  SNUG_CHECK(s.parts == 1 || (s.transposed && s.k % s.parts == 0));
  const panels::Pieces pieces(s.n, s.k, s.parts);
  ParallelFor(threads, Parts(s.n, kPanel<float>), 1, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      constexpr int64_t kWidth = GemmTile<isa(), float>::kColumns;
      for (int64_t j = begin * kPanel<float>; j < end * kPanel<float>; j += kWidth) {
        for (int64_t p = 0, rows = 0; p < s.k; p += rows) {
          rows = pieces.DepthAt(p);
          panels::PackPiece<kWidth>(rows, std::clamp<int64_t>(s.n - j, 0, kWidth), panels::PieceAt(s, from, p, j),
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
  SNUG_CHECK(call.parts == 1 || (call.scattered_a != nullptr && call.k % call.parts == 0));
  const panels::Cut cut(threads, call.m, call.n, panels::TaskRows<T>(call.k),
                        panels::TaskColumns<T>(call.norm.x != nullptr),
                        /*by_threads=*/call.moments.mean == nullptr && call.norm.x == nullptr);
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
