#include "ops/kernels/matmul/wide_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "ops/kernels/copy/transpose.h"
#include "ops/kernels/matmul/finish.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core::wide_blocks {
namespace {

// The tile of c that is held in registers: kRows rows of kVectors vectors.
template <Isa kIsa>
struct TileOf {
  static constexpr int64_t kLanes = kIsa == Isa::kAvx512 ? 16 : 8;
  static constexpr int kVectors = kIsa == Isa::kAvx512 ? 3 : 2;
  static constexpr int kRows = kIsa == Isa::kAvx512 ? 8 : 6;
  static constexpr int64_t kColumns = kVectors * kLanes;  // of a panel

  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));  // NOLINT: `using` takes no vector_size
};

// A group's panels (192 KB) are to stay in the second-level cache, beside a run's strips (48 KB) and the next group of
// b, while the block's other strips (528 KB) go by once for each group.
constexpr int64_t kBlockRows = 528;
constexpr int64_t kPieceDepth = 256;  // of k: a panel of b is 16 or 48 KB then
// Where c is bfloat16 its sums are kept apart, of a block of so many rows at most, and as many columns as make so many
// floats.
constexpr int64_t kBlockRowsOfSums = 288, kMostSums = kBlockRowsOfSums * 576;
// Panels are packed and multiplied in groups of so many columns, by runs of so many rows. Each row of a, b and c is in
// a page of its own, as a rule, and a processor remembers the addresses of a few thousand pages at most. A group looks
// up each page once; single panels would look it up once each.
constexpr int64_t kGroupColumns = 192, kRunRows = 48;

// Products of fewer rows, columns or steps along k spend too much of the time on what is done for each block and strip.
constexpr int64_t kLeastRows = 8, kLeastColumns = 256, kLeastDepth = 64;
constexpr int64_t kLeastProduct = 1 << 25;  // multiply-adds

// ---- what is asked for ----

constexpr int64_t kLine = 64;  // bytes
constexpr int64_t kFloatsOfLine = kLine / static_cast<int64_t>(sizeof(float));
constexpr int64_t kBetweenAsks = 8;   // steps along k, which are unrolled by twos, as in needed_next.h
constexpr int64_t kMostLines = 2048;  // while a run of rows is multiplied by a group

// A rectangle of memory.
struct Rectangle {
  const void* data = nullptr;
  int64_t rows = 0, stride = 0, bytes = 0;  // strides and bytes of rows; rows may be 0
};

template <class T>
Rectangle RectangleOf(const StridedMatrix<T>& matrix, int64_t rows, int64_t columns) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
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

  // How many to ask for during `now` of the rows that are left, so that all are asked for once these are done.
  int64_t Share(int64_t now, int64_t rows_left) const { return Parts(left() * now, rows_left); }

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

typedef float HalfALine __attribute__((vector_size(kLine / 2)));  // NOLINT: `using` takes no vector_size

template <int64_t kCount, class Vector, class T>
SNUG_INLINE void CopyAsFloats(const T* from, float* to) {
  constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);
  int64_t l = 0;
#pragma GCC unroll 4
  for (; l + kLanes <= kCount; l += kLanes) {
    Vector vector;
    LoadFloats(from + l, vector);
    StoreFloats(vector, to + l);
  }
  for (; l < kCount; ++l) to[l] = static_cast<float>(from[l]);
}

// Packs a [rows, depth] into strips [depth][kRows]. Missing rows of the last one are never read.
template <int kRows, class T>
SNUG_INLINE void PackStrips(int64_t rows, int64_t depth, const StridedMatrix<T>& a, float* strips) {
  const int64_t whole = rows / kRows;
  int64_t i = 0;
  if (a.row == 1) {
    // A line of memory has numbers of several strips: all of them are taken before the next one is read.
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t s = 0; s < whole; ++s) {
        const T* const from = a.data + p * a.col + s * kRows;
        float* const to = strips + (s * depth + p) * kRows;
        if constexpr (std::is_same_v<T, float>) {
          std::memcpy(to, from, kRows * sizeof(float));
        } else {
          CopyAsFloats<kRows, HalfALine>(from, to);
        }
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
    for (int64_t p = 0; p < depth; ++p) to[p * kRows] = static_cast<float>(a.data[i * a.row + p * a.col]);
  }
}

// Packs b [depth, columns] into panels [depth][kColumns], of which the last one has as many whole vectors as it needs;
// missing columns are 0.
template <class Tile, class T>
SNUG_INLINE void PackPanels(int64_t depth, int64_t columns, const StridedMatrix<T>& b, float* panels) {
  constexpr int64_t kWidth = Tile::kColumns;
  const int64_t whole = columns / kWidth;
  if (b.col == 1) {
    // The second-level cache has the rows, as they were asked for; the first one is asked some rows ahead.
    constexpr int64_t kAhead = 4, kOfLine = kLine / static_cast<int64_t>(sizeof(T));
    for (int64_t p = 0; p < depth; ++p) {
      const T* const ahead = b.data + std::min(p + kAhead, depth - 1) * b.row;
      for (int64_t j = 0; j < columns; j += kOfLine) __builtin_prefetch(ahead + j, 0, 3);
      for (int64_t l = 0; l < whole; ++l) {
        const T* const from = b.data + p * b.row + l * kWidth;
        float* const to = panels + (l * depth + p) * kWidth;
        CopyAsFloats<kWidth, typename Tile::Vector>(from, to);
      }
    }
  } else {
    for (int64_t l = 0; l < whole; ++l) {
      float* const panel = panels + l * depth * kWidth;
      if (b.row == 1) {
        for (int64_t j = 0; j < kWidth; j += 8) {
          TransposeRows<8, 8>(depth, b.data + (l * kWidth + j) * b.col, b.col, panel + j, kWidth);
        }
      } else {
        for (int64_t p = 0; p < depth; ++p) {
          const T* const from = b.data + p * b.row + l * kWidth * b.col;
          for (int64_t j = 0; j < kWidth; ++j) panel[p * kWidth + j] = static_cast<float>(from[j * b.col]);
        }
      }
    }
  }
  const int64_t left = columns - whole * kWidth;
  if (left == 0) return;
  const int64_t width = Parts(left, Tile::kLanes) * Tile::kLanes;
  float* const panel = panels + whole * depth * kWidth;
  const T* const from = b.data + whole * kWidth * b.col;
  for (int64_t p = 0; p < depth; ++p) {
    for (int64_t j = 0; j < width; ++j) {
      panel[p * width + j] = j < left ? static_cast<float>(from[p * b.row + j * b.col]) : 0;
    }
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
  const char* const* lines;  // asked for, too: so many by each tile
  int64_t lines_of_tile;
};

// Computes kCount rows of c by a panel of kWidth vectors. Their numbers of a begin at `strip`.
template <class Tile, int kCount, int kWidth>
SNUG_INLINE void MultiplyRows(const Tiles& t, const float* strip, float* c, int64_t c_stride) {
  using Vector = typename Tile::Vector;
  constexpr int kRows = Tile::kRows;
  constexpr int64_t kLanes = Tile::kLanes;
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
#pragma GCC unroll 4
    for (int v = 0; v < kWidth; ++v) std::memcpy(&b[v], t.panel + (p * kWidth + v) * kLanes, sizeof(Vector));
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      const float value = strip[p * kRows + r];
#pragma GCC unroll 4
      for (int v = 0; v < kWidth; ++v) sum[r][v] += value * b[v];
    }
  };
  int64_t p = 0;
  if constexpr (kCount == kRows && kWidth == Tile::kVectors) {
    const char* const* lines = t.lines;
    const char* const* const end = lines + t.lines_of_tile;
    const int64_t at_once = Parts(t.lines_of_tile, std::max<int64_t>(1, t.depth / kBetweenAsks));
    const float* next_c = t.next_c;
    for (int64_t asked = 0; p + kBetweenAsks <= t.depth; ++asked) {
      if (asked < kRows) {
#pragma GCC unroll 4
        for (int64_t l = 0; l < Tile::kColumns; l += kFloatsOfLine) __builtin_prefetch(next_c + l, 1, 3);
        next_c += t.c_stride;
      }
      for (int64_t l = 0; l < at_once && lines != end; ++l) __builtin_prefetch(*lines++, 0, 2);
      static_assert(kBetweenAsks % 2 == 0);
#pragma GCC unroll 1
      for (int64_t l = 0; l < kBetweenAsks; l += 2, p += 2) {
        step(p);
        step(p + 1);
      }
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
template <class Tile, int kCount, int kWidth>
SNUG_INLINE void MultiplyFewer(int64_t rows, const Tiles& t, const float* strip, float* c, int64_t c_stride) {
  if (rows >= kCount) {
    MultiplyRows<Tile, kCount, kWidth>(t, strip, c, c_stride);
    rows -= kCount;
    strip += kCount;
    c += kCount * c_stride;
  }
  if constexpr (kCount > 1) MultiplyFewer<Tile, kCount / 2, kWidth>(rows, t, strip, c, c_stride);
}

// Computes rows by fewer columns than a panel has, or fewer rows than a strip has.
template <class Tile, int kCount>
SNUG_INLINE void MultiplyEdge(const Tiles& t) {
  constexpr int64_t kWidth = kCount * Tile::kLanes;
  constexpr int kRows = Tile::kRows;
  if constexpr (kCount > 1) {
    if (t.columns <= kWidth - Tile::kLanes) return MultiplyEdge<Tile, kCount - 1>(t);
  }
  for (int64_t i = 0; i < t.rows; i += kRows) {
    const int64_t rows = std::min<int64_t>(kRows, t.rows - i);
    const float* const strip = t.strips + i * t.depth;
    const auto multiply = [&](float* c, int64_t c_stride) SNUG_LAMBDA {
      if (rows == kRows) {
        MultiplyRows<Tile, kRows, kCount>(t, strip, c, c_stride);
      } else {
        MultiplyFewer<Tile, 4, kCount>(rows, t, strip, c, c_stride);
      }
    };
    float* const c = t.c + i * t.c_stride;
    if (t.columns == kWidth) {
      multiply(c, t.c_stride);
      continue;
    }
    // What follows these columns in c is the next row's.
    alignas(64) float edge[kRows * kWidth] = {};
    for (int64_t l = 0; l < rows && t.accumulate; ++l) std::copy_n(c + l * t.c_stride, t.columns, edge + l * kWidth);
    multiply(edge, kWidth);
    for (int64_t l = 0; l < rows; ++l) std::copy_n(edge + l * kWidth, t.columns, c + l * t.c_stride);
  }
}

// Runs a body that is compiled for an instruction set, which must be the current one; for others it is not compiled.
template <Isa kIsa, class Body>
void RunOn(const Body& body) {
  WithIsa([&](auto isa) SNUG_LAMBDA {
    if constexpr (isa() == kIsa) body();
  });
}

// Each of the next two is a function of its own, in which the compiler has all registers for one loop.

// Computes whole strips by a whole panel.
template <Isa kIsa>
void MultiplyTiles(const Tiles& all) {
  RunOn<kIsa>([&]() SNUG_LAMBDA {
    constexpr int kRows = TileOf<kIsa>::kRows;
    Tiles t = all;
    for (int64_t left = t.rows; left > 0; left -= kRows) {
      t.next_c = left > kRows ? t.c + kRows * t.c_stride : all.next_c;
      MultiplyRows<TileOf<kIsa>, kRows, TileOf<kIsa>::kVectors>(t, t.strips, t.c, t.c_stride);
      t.strips += kRows * t.depth;
      t.c += kRows * t.c_stride;
      t.lines += t.lines_of_tile;
    }
  });
}

template <Isa kIsa>
void MultiplyWhatIsLeft(const Tiles& t) {
  RunOn<kIsa>([&]() SNUG_LAMBDA { MultiplyEdge<TileOf<kIsa>, TileOf<kIsa>::kVectors>(t); });
}

// ---- what a thread does ----

// Lines of memory that are asked for while a run of rows is multiplied by a group, the same number by each tile.
class AskedFor {
 public:
  // Lists what is left of a, and a share of b. What finds no room is asked for by the next run, if there is one.
  void List(int64_t tiles, Lines& a, Lines& b, int64_t share_of_b) {
    of_tile_ = 0;
    if (tiles == 0) return;
    const char** end = a.Append(std::min(a.left(), kMostLines), list_.data());
    end = b.Append(std::min(share_of_b, kMostLines - (end - list_.data())), end);
    if (end == list_.data()) return;
    of_tile_ = Parts(end - list_.data(), tiles);
    std::fill(end, list_.data() + of_tile_ * tiles, list_.front());  // so that each tile has as many
  }

  const char* const* lines() const { return list_.data(); }
  int64_t of_tile() const { return of_tile_; }

 private:
  static constexpr int64_t kMostTiles =
      kRunRows / TileOf<Isa::kAvx2>::kRows * (kGroupColumns / TileOf<Isa::kAvx2>::kColumns);

  std::array<const char*, kMostLines + kMostTiles> list_;
  int64_t of_tile_ = 0;
};

// How large a thread's blocks are.
struct BlockSize {
  BlockSize(const Most& most, int64_t k, bool sums_apart)
      : rows(EqualPart(most.rows, sums_apart ? kBlockRowsOfSums : kBlockRows, kRunRows)),
        depth(EqualPart(k, kPieceDepth, kBetweenAsks)),
        columns_of_sums(sums_apart ? std::min(kMostSums / rows / kGroupColumns * kGroupColumns,
                                              Parts(most.columns, kFloatsOfLine) * kFloatsOfLine)
                                   : 0) {}

  int64_t floats() const { return (rows + kGroupColumns) * depth + rows * columns_of_sums; }

  int64_t rows, depth;
  int64_t columns_of_sums;  // 0: c holds its sums itself, and blocks have all columns of a part
};

// A thread's part of a product. It is computed in blocks of rows and, where sums are kept apart, of columns; these are
// computed in pieces along k, and these in groups of columns.
template <Isa kIsa, class A, class B, class C>
class PartOfProduct {
 public:
  PartOfProduct(const GemmCall<A, B, C>& call, Activation activation, const Part& part, float* workspace)
      : call_(call),
        activation_(activation),
        part_(part),
        size_(part.most, call.k, kSumsApart),
        strips_(workspace),
        panels_(workspace + size_.rows * size_.depth),
        sums_(panels_ + kGroupColumns * size_.depth) {}

  void Multiply() {
    const int64_t most_columns = kSumsApart ? size_.columns_of_sums : part_.columns;
    for (column_ = part_.column; column_ < part_.column + part_.columns; column_ += most_columns) {
      columns_ = std::min(most_columns, part_.column + part_.columns - column_);
      for (row_ = part_.row; row_ < part_.row + part_.rows; row_ += size_.rows) {
        rows_ = std::min(size_.rows, part_.row + part_.rows - row_);
        for (p_ = 0; p_ < call_.k; p_ += depth_) {
          depth_ = std::min(size_.depth, call_.k - p_);
          for (int64_t j = column_; j < end_column(); j += kGroupColumns) MultiplyGroup(j);
        }
      }
    }
  }

 private:
  static constexpr bool kSumsApart = !std::is_same_v<C, float>;
  static constexpr int kRows = TileOf<kIsa>::kRows;
  static constexpr int64_t kColumns = TileOf<kIsa>::kColumns;

  int64_t end_column() const { return column_ + columns_; }
  int64_t group_columns(int64_t j) const { return std::min(kGroupColumns, end_column() - j); }
  bool last_piece() const { return p_ + depth_ == call_.k; }

  // Where the sum of row i of the block and column j of c is, and how far the next row's is from it.
  float* sum_at(int64_t i, int64_t j) const {
    if constexpr (kSumsApart) {
      return sums_ + i * size_.columns_of_sums + (j - column_);
    } else {
      return call_.c + (row_ + i) * call_.n + j;
    }
  }
  int64_t sums_row() const { return kSumsApart ? size_.columns_of_sums : call_.n; }

  // The lines of a run of rows of a, and of a group of columns of b, of the piece that begins at p. What comes after
  // the last piece is another block's, or nothing, and is not asked for.
  Lines RowsOfA(int64_t i, int64_t p) const {
    if (i >= rows_ || p >= call_.k) return {};
    return Lines(
        RectangleOf(call_.a.At(row_ + i, p), std::min(kRunRows, rows_ - i), std::min(size_.depth, call_.k - p)));
  }
  Lines GroupOfB(int64_t p, int64_t j) const {
    if (p >= call_.k) return {};
    return Lines(RectangleOf(call_.b.At(p, j), std::min(size_.depth, call_.k - p), group_columns(j)));
  }

  // Computes columns [j, j + group_columns(j)) of the block and piece. The first group packs the rows of a.
  void MultiplyGroup(int64_t j) {
    const int64_t columns = group_columns(j);
    const bool first = j == column_, last = j + columns == end_column();
    RunOn<kIsa>([&]() SNUG_LAMBDA { PackPanels<TileOf<kIsa>>(depth_, columns, call_.b.At(p_, j), panels_); });
    Lines next_b = last ? GroupOfB(p_ + depth_, column_) : GroupOfB(p_, j + columns);
    Lines next_a;
    for (int64_t i = 0; i < rows_; i += kRunRows) {
      const int64_t rows = std::min(kRunRows, rows_ - i);
      if (first) {
        RunOn<kIsa>(
            [&]() SNUG_LAMBDA { PackStrips<kRows>(rows, depth_, call_.a.At(row_ + i, p_), strips_ + i * depth_); });
        next_a = RowsOfA(i + rows, p_);
      }
      if (last && i + rows == rows_) next_a = RowsOfA(0, p_ + depth_);
      asked_.List(rows / kRows * (columns / kColumns), next_a, next_b, next_b.Share(rows, rows_ - i));
      const float* const next_c = i + rows < rows_ ? sum_at(i + rows, j) : sum_at(0, last ? column_ : j + columns);
      MultiplyRun(i, rows, j, columns, next_c);
      if (!last_piece() || SumsAreAll(call_, activation_)) continue;
      RunOn<kIsa>([&]() SNUG_LAMBDA {
        FinishBlock(IsaConstant<kIsa>(), call_, activation_, row_ + i, j, rows, columns, sum_at(i, j), sums_row());
      });
    }
  }

  // Multiplies rows [i, i + rows) of the block by the panels of a group. `next_c` is what of c is computed next.
  void MultiplyRun(int64_t i, int64_t rows, int64_t j, int64_t columns, const float* next_c) {
    const int64_t whole_rows = rows / kRows * kRows;
    const char* const* lines = asked_.lines();
    for (int64_t l = 0; l < columns; l += kColumns) {
      Tiles t = {.rows = whole_rows,
                 .columns = std::min(kColumns, columns - l),
                 .depth = depth_,
                 .strips = strips_ + i * depth_,
                 .panel = panels_ + l * depth_,
                 .c = sum_at(i, j + l),
                 .c_stride = sums_row(),
                 .accumulate = p_ > 0,
                 .next_c = l + kColumns < columns ? sum_at(i, j + l + kColumns) : next_c,
                 .lines = lines,
                 .lines_of_tile = asked_.of_tile()};
      int64_t done = 0;
      if (t.columns == kColumns && whole_rows > 0) {
        MultiplyTiles<kIsa>(t);
        lines += whole_rows / kRows * t.lines_of_tile;
        done = whole_rows;
      }
      if (done == rows) continue;
      t.lines_of_tile = 0;
      t.rows = rows - done;
      t.strips += done * depth_;
      t.c += done * sums_row();
      MultiplyWhatIsLeft<kIsa>(t);
    }
  }

  const GemmCall<A, B, C>& call_;
  const Activation activation_;
  const Part part_;
  const BlockSize size_;
  float* const strips_;
  float* const panels_;
  float* const sums_;                 // where they are kept apart
  int64_t row_ = 0, rows_ = 0;        // the block
  int64_t column_ = 0, columns_ = 0;  // its columns
  int64_t p_ = 0, depth_ = 0;         // the piece
  AskedFor asked_;
};

}  // namespace

bool AreFor(int64_t m, int64_t n, int64_t k) {
  return n >= kLeastColumns && k >= kLeastDepth && m >= kLeastRows && m * n * k > kLeastProduct;
}

int64_t Floats(const Most& most, int64_t k, bool sums_apart) { return BlockSize(most, k, sums_apart).floats(); }

template <class A, class B, class C>
void Multiply(const GemmCall<A, B, C>& call, Activation activation, const Part& part, float* workspace) {
  SNUG_CHECK(CurrentIsa() != Isa::kBaseline);
  if (CurrentIsa() == Isa::kAvx512) {
    PartOfProduct<Isa::kAvx512, A, B, C>(call, activation, part, workspace).Multiply();
  } else {
    PartOfProduct<Isa::kAvx2, A, B, C>(call, activation, part, workspace).Multiply();
  }
}

template void Multiply(const GemmCall<float>&, Activation, const Part&, float*);
template void Multiply(const GemmCall<BFloat16>&, Activation, const Part&, float*);
template void Multiply(const GemmCall<BFloat16, float, BFloat16>&, Activation, const Part&, float*);
template void Multiply(const GemmCall<BFloat16, BFloat16, float>&, Activation, const Part&, float*);

}  // namespace snug::core::wide_blocks
