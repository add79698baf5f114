#include "ops/kernels/matmul/wide_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/base/status.h"
#include "ops/kernels/copy/transpose.h"
#include "ops/kernels/matmul/finish.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/isa.h"

namespace snug::core::wide_blocks {
namespace {

typedef float Vector __attribute__((vector_size(64)));  // NOLINT: `using` takes no vector_size
constexpr int64_t kLanes = 16;
constexpr int kVectors = 3;
constexpr int64_t kColumns = kVectors * kLanes;  // of a panel
constexpr int kRows = 8;                         // of a strip

constexpr int64_t kBlockRows = 480;
constexpr int64_t kPieceDepth = 256;  // of k: a panel of b is 48 KB then
constexpr int64_t kRowsPacked = 24;   // of a, at once: whole strips, and in a transposed a one line or two of each k

// Products of fewer columns, or steps along k, spend too much of the time on what is done for each block and strip.
constexpr int64_t kLeastColumns = 512, kLeastDepth = 64;
constexpr int64_t kLeastProduct = 1 << 25;  // multiply-adds

// ---- what is asked for ----

constexpr int64_t kLine = 64;        // bytes
constexpr int64_t kBetweenAsks = 8;  // steps along k
constexpr int64_t kMostAsks = 768;   // while the rows that are packed at once are multiplied

// A rectangle of memory.
struct Rectangle {
  const void* data = nullptr;
  int64_t rows = 0, stride = 0, bytes = 0;  // strides and bytes of rows; rows may be 0
};

Rectangle RectangleOf(const StridedMatrix<float>& matrix, int64_t rows, int64_t columns) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
  if (rows <= 0 || columns <= 0) return {};
  if (matrix.col == 1) return {matrix.data, rows, matrix.row * kBytes, columns * kBytes};
  if (matrix.row == 1) return {matrix.data, columns, matrix.col * kBytes, rows * kBytes};
  return {};
}

// Its lines, one after the other.
class Lines {
 public:
  Lines() = default;
  explicit Lines(const Rectangle& of) : row_(static_cast<const char*>(of.data)), rows_(of.rows), stride_(of.stride) {
    // A row that does not begin with a line ends in one more.
    const bool whole = (reinterpret_cast<uintptr_t>(row_) | static_cast<uintptr_t>(stride_)) % kLine == 0;
    of_row_ = Parts(of.bytes, kLine) * kLine + (whole ? 0 : kLine);
  }

  int64_t left() const { return rows_ * (of_row_ / kLine) - at_ / kLine; }

  // Appends at most `count` lines to a list, and returns its end.
  const char** Append(int64_t count, const char** list) {
    while (count > 0 && rows_ > 0) {
      const int64_t end = std::min(of_row_, at_ + count * kLine);
      count -= (end - at_) / kLine;
      for (; at_ < end; at_ += kLine) *list++ = row_ + at_;
      if (at_ < of_row_) break;
      at_ = 0;
      row_ += stride_;
      --rows_;
    }
    return list;
  }

 private:
  const char* row_ = nullptr;
  int64_t rows_ = 0, stride_ = 0, of_row_ = 0;
  int64_t at_ = 0;
};

// ---- packing ----

// Packs a [rows, depth] into strips [depth][kRows]. Missing rows of the last one are never read.
SNUG_INLINE void PackStrips(int64_t rows, int64_t depth, const StridedMatrix<float>& a, float* strips) {
  const int64_t whole = rows / kRows;
  int64_t i = 0;
  if (a.row == 1) {
    // A line of memory has numbers of several strips: all of them are taken before the next one is read.
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t s = 0; s < whole; ++s) {
        std::memcpy(strips + (s * depth + p) * kRows, a.data + p * a.col + s * kRows, kRows * sizeof(float));
      }
    }
    i = whole * kRows;
  } else if (a.col == 1) {
    for (; i < whole * kRows; i += kRows) {
      TransposeRows<8, kRows>(depth, a.data + i * a.row, a.row, strips + i * depth, kRows);
    }
  }
  for (; i < rows; ++i) {
    float* const to = strips + i / kRows * kRows * depth + i % kRows;
    for (int64_t p = 0; p < depth; ++p) to[p * kRows] = a.data[i * a.row + p * a.col];
  }
}

// Packs b [depth, columns] into a panel [depth][width]; missing columns are 0.
SNUG_INLINE void PackPanel(int64_t width, int64_t depth, int64_t columns, const StridedMatrix<float>& b, float* panel) {
  constexpr int64_t kSide = 8;
  int64_t j = 0;
  if (b.row == 1) {
    for (; j + kSide <= columns; j += kSide) {
      TransposeRows<kSide, kSide>(depth, b.data + j * b.col, b.col, panel + j, width);
    }
  }
  for (int64_t p = 0; p < depth && j < width; ++p) {
    for (int64_t l = j; l < width; ++l) panel[p * width + l] = l < columns ? b.data[p * b.row + l * b.col] : 0;
  }
}

// ---- multiplication ----

// Some rows of c, columns of a panel of them, and what is added up there.
struct Tiles {
  int64_t rows, columns, depth;
  const float* strips;
  const float* panel;
  float* c;
  int64_t c_stride;
  bool accumulate;           // otherwise c is overwritten
  const float* next_c;       // asked for: as many rows as a strip has
  const char* const* lines;  // asked for, too: so many at a time
  int64_t at_once;
};

// Columns of b as they lie in a panel of kCount vectors.
template <int kCount>
struct FromPanel {
  static constexpr int kVectorsOfPanel = kCount;
  const float* panel;

  SNUG_INLINE void Load(int64_t p, Vector (&b)[kCount]) const {
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) std::memcpy(&b[v], panel + (p * kCount + v) * kLanes, sizeof(Vector));
  }
};

// The same columns as they lie in b's rows; what was read is packed into a panel for the next strips. The second-level
// cache has it already, as it was asked for, and the first one is asked some rows ahead.
struct FromRows {
  static constexpr int kVectorsOfPanel = kVectors;
  const float* rows;
  int64_t stride;
  int64_t depth;
  float* panel;

  SNUG_INLINE void Load(int64_t p, Vector (&b)[kVectors]) const {
    constexpr int64_t kAhead = 4;
    const float* const row = rows + p * stride;
    const float* const ahead = rows + std::min(p + kAhead, depth - 1) * stride;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      __builtin_prefetch(ahead + v * kLanes, 0, 3);
      std::memcpy(&b[v], row + v * kLanes, sizeof(Vector));
      std::memcpy(panel + p * kColumns + v * kLanes, &b[v], sizeof(Vector));
    }
  }
};

// Computes kCount rows of c, whose numbers of a begin at `strip`.
template <int kCount, class Columns>
SNUG_INLINE void MultiplyRows(const Tiles& t, const float* strip, const Columns& columns, float* c, int64_t c_stride) {
  constexpr int kWidth = Columns::kVectorsOfPanel;
  Vector sum[kCount][kWidth];
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kWidth; ++v) {
      sum[r][v] = Vector{};
      if (t.accumulate) std::memcpy(&sum[r][v], c + r * c_stride + v * kLanes, sizeof(Vector));
    }
  }
  const auto step = [&](int64_t p) SNUG_LAMBDA {
    Vector b[kWidth];
    columns.Load(p, b);
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      const float value = strip[p * kRows + r];
#pragma GCC unroll 4
      for (int v = 0; v < kWidth; ++v) sum[r][v] += value * b[v];
    }
  };
  int64_t p = 0;
  if constexpr (kCount == kRows && kWidth == kVectors) {
    const char* const* lines = t.lines;
    const float* next_c = t.next_c;
    for (int64_t asked = 0; p + kBetweenAsks <= t.depth; ++asked) {
      if (asked < kRows) {
#pragma GCC unroll 4
        for (int v = 0; v < kWidth; ++v) __builtin_prefetch(next_c + v * kLanes, 1, 3);
        next_c += t.c_stride;
      }
      for (int64_t l = 0; l < t.at_once; ++l) __builtin_prefetch(*lines++, 0, 3);
#pragma GCC unroll 8
      for (int64_t l = 0; l < kBetweenAsks; ++l) step(p + l);
      p += kBetweenAsks;
    }
  }
  for (; p < t.depth; ++p) step(p);
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kWidth; ++v) std::memcpy(c + r * c_stride + v * kLanes, &sum[r][v], sizeof(Vector));
  }
}

// The same for fewer rows than a strip has.
template <int kCount, class Columns>
SNUG_INLINE void MultiplyFewer(int64_t rows, const Tiles& t, const float* strip, const Columns& columns, float* c,
                               int64_t c_stride) {
  if (rows >= kCount) {
    MultiplyRows<kCount>(t, strip, columns, c, c_stride);
    rows -= kCount;
    strip += kCount;
    c += kCount * c_stride;
  }
  if constexpr (kCount > 1) MultiplyFewer<kCount / 2>(rows, t, strip, columns, c, c_stride);
}

// Computes what is less than a tile: fewer rows than a strip, fewer columns than a panel, or both.
template <int kCount>
SNUG_INLINE void MultiplyEdge(const Tiles& t) {
  constexpr int64_t kWidth = kCount * kLanes;
  if constexpr (kCount > 1) {
    if (t.columns <= kWidth - kLanes) return MultiplyEdge<kCount - 1>(t);
  }
  const FromPanel<kCount> columns = {t.panel};
  const auto multiply = [&](float* c, int64_t c_stride) SNUG_LAMBDA {
    if (t.rows == kRows) {
      MultiplyRows<kRows>(t, t.strips, columns, c, c_stride);
    } else {
      MultiplyFewer<kRows / 2>(t.rows, t, t.strips, columns, c, c_stride);
    }
  };
  if (t.columns == kWidth) return multiply(t.c, t.c_stride);
  // What follows these columns in c is the next row's.
  alignas(64) float edge[kRows * kWidth] = {};
  for (int64_t l = 0; l < t.rows && t.accumulate; ++l) std::copy_n(t.c + l * t.c_stride, t.columns, edge + l * kWidth);
  multiply(edge, kWidth);
  for (int64_t l = 0; l < t.rows; ++l) std::copy_n(edge + l * kWidth, t.columns, t.c + l * t.c_stride);
}

// Runs a body on AVX-512; the others are not compiled.
template <class Body>
void OnAvx512(const Body& body) {
  WithIsa([&](auto isa) SNUG_LAMBDA {
    if constexpr (isa() == Isa::kAvx512) body();
  });
}

// Each of the next three is a function of its own, in which the compiler has all registers for one loop.

// Computes whole strips by a whole panel.
void MultiplyStrips(const Tiles& all) {
  OnAvx512([&]() SNUG_LAMBDA {
    Tiles t = all;
    const FromPanel<kVectors> columns = {t.panel};
    for (int64_t left = t.rows; left > 0; left -= kRows) {
      t.next_c = left > kRows ? t.c + kRows * t.c_stride : all.next_c;
      MultiplyRows<kRows>(t, t.strips, columns, t.c, t.c_stride);
      t.strips += kRows * t.depth;
      t.c += kRows * t.c_stride;
      t.lines += t.depth / kBetweenAsks * t.at_once;
    }
  });
}

// Computes one strip, and packs the panel on the way.
void MultiplyAndPack(const Tiles& t, const StridedMatrix<float>& b, float* panel) {
  OnAvx512([&]() SNUG_LAMBDA {
    MultiplyRows<kRows>(t, t.strips, FromRows{b.data, b.row, t.depth, panel}, t.c, t.c_stride);
  });
}

void MultiplyWhatIsLeft(const Tiles& t) {
  OnAvx512([&]() SNUG_LAMBDA { MultiplyEdge<kVectors>(t); });
}

// A block of rows of a thread's part, and a piece along k.
struct Block {
  const GemmCall<float>& call;
  int64_t row, rows, p, depth;
  float *strips, *panel;
};

// Computes columns [j, j + columns), a panel's at most. Strips are packed where `packs_strips`. `later` is what of b is
// packed next, and next_c what of c is computed next; it may be null.
void MultiplyPanel(const Block& block, int64_t j, int64_t columns, bool packs_strips, const float* next_c,
                   const Rectangle& later) {
  const GemmCall<float>& call = block.call;
  const int64_t depth = block.depth;
  const StridedMatrix<float> b = call.b.At(block.p, j);
  const bool whole = columns == kColumns;
  bool packed = !whole || b.col != 1 || block.rows < kRows;
  if (packed) {
    OnAvx512([&]() SNUG_LAMBDA { PackPanel(Parts(columns, kLanes) * kLanes, depth, columns, b, block.panel); });
  }
  float* const c = call.c + block.row * call.n + j;
  const int64_t asks = depth < kLeastDepth ? 0 : depth / kBetweenAsks;  // for a strip
  std::array<const char*, kMostAsks> list;
  Lines next_b(later), next_a;
  const int64_t of_b = Parts(next_b.left() * kRows, block.rows);  // for a strip
  for (int64_t i = 0, rows = 0; i < block.rows; i += rows) {
    const int64_t until_packing = kRowsPacked - i % kRowsPacked;
    if (packs_strips && i % kRowsPacked == 0) {
      const StridedMatrix<float> a = call.a.At(block.row + i, block.p);
      OnAvx512(
          [&]() SNUG_LAMBDA { PackStrips(std::min(kRowsPacked, block.rows - i), depth, a, block.strips + i * depth); });
      next_a = Lines(RectangleOf(a.At(kRowsPacked, 0), std::min(kRowsPacked, block.rows - i - kRowsPacked), depth));
    }
    rows = std::min(until_packing, block.rows - i);
    rows = !packed || !whole || rows < kRows ? std::min<int64_t>(rows, kRows) : rows / kRows * kRows;
    Tiles t = {.rows = rows,
               .columns = columns,
               .depth = depth,
               .strips = block.strips + i * depth,
               .panel = block.panel,
               .c = c + i * call.n,
               .c_stride = call.n,
               .accumulate = block.p > 0,
               .next_c = c + (i + rows) * call.n,
               .lines = list.data(),
               .at_once = 0};
    if (i + rows >= block.rows) t.next_c = next_c != nullptr ? next_c : c;
    if (!whole || rows < kRows) {
      MultiplyWhatIsLeft(t);
      continue;
    }
    if (const int64_t times = rows / kRows * asks; times > 0) {
      const int64_t most = kMostAsks / times * times;
      const char** end = next_b.Append(std::min(of_b * (rows / kRows), most), list.data());
      end = next_a.Append(std::min(Parts(next_a.left() * rows, until_packing), most - (end - list.data())), end);
      t.at_once = Parts(end - list.data(), times);
      std::fill(end, list.data() + t.at_once * times, reinterpret_cast<const char*>(t.panel));
    }
    if (packed) {
      MultiplyStrips(t);
    } else {
      packed = true;
      MultiplyAndPack(t, b, block.panel);
    }
  }
}

}  // namespace

bool AreFor(int64_t m, int64_t n, int64_t k) {
  return n >= kLeastColumns && k >= kLeastDepth && m >= kRows && m * n * k > kLeastProduct;
}

int64_t Floats(int64_t most_rows, int64_t k) {
  return (EqualPart(most_rows, kBlockRows, kRowsPacked) + kColumns) * EqualPart(k, kPieceDepth, kBetweenAsks);
}

void Multiply(const GemmCall<float>& call, Activation activation, const Part& part, float* workspace) {
  SNUG_CHECK(CurrentIsa() == Isa::kAvx512);
  const int64_t block_rows = EqualPart(part.most_rows, kBlockRows, kRowsPacked);
  const int64_t depth = EqualPart(call.k, kPieceDepth, kBetweenAsks);
  const bool finished = SumsAreAll(call, activation);
  const int64_t end_row = part.row + part.rows, end_column = part.column + part.columns;
  const auto panel_of_b = [&](int64_t p, int64_t j) {
    return RectangleOf(call.b.At(p, j), std::min(depth, call.k - p), std::min(kColumns, end_column - j));
  };
  Block block = {.call = call, .strips = workspace, .panel = workspace + block_rows * depth};
  for (block.row = part.row; block.row < end_row; block.row += block_rows) {
    block.rows = std::min(block_rows, end_row - block.row);
    for (block.p = 0; block.p < call.k; block.p += depth) {
      block.depth = std::min(depth, call.k - block.p);
      const bool last = block.p + block.depth == call.k;
      for (int64_t j = part.column; j < end_column; j += kColumns) {
        const bool more = j + kColumns < end_column;
        const Rectangle later = more    ? panel_of_b(block.p, j + kColumns)
                                : !last ? panel_of_b(block.p + block.depth, part.column)
                                        : Rectangle();
        const int64_t columns = std::min(kColumns, end_column - j);
        float* const c = call.c + block.row * call.n + j;
        MultiplyPanel(block, j, columns, j == part.column, more ? c + kColumns : nullptr, later);
        if (!last || finished) continue;
        OnAvx512([&]() SNUG_LAMBDA { FinishBlock(call, activation, block.row, j, block.rows, columns, c, call.n); });
      }
    }
  }
}

}  // namespace snug::core::wide_blocks
