#include "ops/kernels/matmul/tall.h"

#include <algorithm>
#include <utility>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace tall {
namespace {

// A part has no fewer rows, and all parts together no more sums than these (4 MB).
constexpr int64_t kLeastPart = 256;
constexpr int64_t kMostSums = 1 << 20;
constexpr int64_t kMostParts = 64;
// A task has a part's sums of so many rows and columns of c, at most.
constexpr int64_t kTaskRows = 192, kTaskColumns = 512;
constexpr int64_t kStripMultiple = 24;  // the rows of all register tiles divide it
// So many rows of both factors are packed at once, at most: a panel of b then stays in the first-level cache while the
// strips of a go by. All panels and strips stay in the second-level cache. The number is odd, so that they begin in
// different sets of the first-level cache.
constexpr int64_t kMostDepth = 125;
constexpr int64_t kPackedFloats = 48 << 10;
constexpr int64_t kLineBytes = 64;  // of a cache
constexpr int64_t kLineFloats = kLineBytes / static_cast<int64_t>(sizeof(float));

// How a product is cut. Everything follows from its size.
struct Cut {
  Cut(int64_t m, int64_t n, int64_t k)
      : swapped(m > n),
        rows(EqualPart(std::min(m, n), kTaskRows, kStripMultiple)),
        columns(EqualPart(std::max(m, n), kTaskColumns, kPanel<float>)),
        row_tasks(Parts(std::min(m, n), rows)),
        column_tasks(Parts(std::max(m, n), columns)),
        sums(rows * row_tasks * columns * column_tasks),
        parts(std::clamp<int64_t>(std::min(k / kLeastPart, kMostSums / std::max<int64_t>(1, sums)), 1, kMostParts)),
        depth((std::min(kMostDepth, (kPackedFloats - kLineFloats) / (rows + columns)) - 1) | 1) {}
  int64_t sums_row() const { return columns * column_tasks; }

  bool swapped;           // it is the transpose of c that is computed, which has more columns than rows
  int64_t rows, columns;  // of that, in a task
  int64_t row_tasks, column_tasks;
  int64_t sums;  // in a part
  int64_t parts;
  int64_t depth;
};

// Copies rows [rows, width] into panels [rows][kWidth], one behind the other. Columns that the last one has not become
// 0.
template <Isa kIsa, int64_t kWidth, class T>
SNUG_INLINE void PackRows(int64_t rows, int64_t width, const T* from, int64_t from_row, float* panels) {
  using Vector = typename GemmTile<kIsa, float>::Vector;
  constexpr int64_t kLanes = GemmTile<kIsa, float>::kLanes;
  for (int64_t p = 0; p < rows; ++p, from += from_row) {
    float* to = panels + p * kWidth;
    int64_t j = 0;
    for (; j + kWidth <= width; j += kWidth, to += rows * kWidth) {
      if constexpr (kWidth % kLanes == 0) {
#pragma GCC unroll 2
        for (int64_t l = 0; l < kWidth; l += kLanes) {
          Vector v;
          LoadFloats(from + j + l, v);
          StoreFloats(v, to + l);
        }
      } else {
        for (int64_t l = 0; l < kWidth; ++l) to[l] = static_cast<float>(from[j + l]);
      }
    }
    for (int64_t l = 0; j < width && l < kWidth; ++l) to[l] = j + l < width ? static_cast<float>(from[j + l]) : 0.0F;
  }
}

// What the next rows of the factors are, for it is asked for while these are multiplied.
class Coming {
 public:
  SNUG_INLINE Coming(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes)
      : a_(static_cast<const char*>(a)), b_(static_cast<const char*>(b)), a_bytes_(a_bytes), b_bytes_(b_bytes) {}
  // Returns where the next `lines` cache lines are. They may go beyond the end.
  SNUG_INLINE const char* Take(int64_t lines) {
    const int64_t at = at_;
    at_ += lines * kLineBytes;
    if (at < b_bytes_) return b_ + at;
    return a_ + std::min(at - b_bytes_, a_bytes_);
  }

 private:
  const char *a_, *b_;
  int64_t a_bytes_, b_bytes_, at_ = 0;
};

// Some rows of sums, to which products are added.
struct Sums {
  float* data;
  int64_t row;
  bool accumulate;  // otherwise they begin at 0
};

// Adds the product of a strip and a panel.
template <Isa kIsa, int kRows>
SNUG_INLINE void MultiplyRows(int64_t depth, const float* strip, const float* panel, const char* coming,
                              const Sums& sums) {
  using Tile = GemmTile<kIsa, float>;
  using Vector = typename Tile::Vector;
  Vector sum[kRows][2];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    sum[r][0] = sum[r][1] = Vector{};
    if (!sums.accumulate) continue;
    LoadFloats(sums.data + r * sums.row, sum[r][0]);
    LoadFloats(sums.data + r * sums.row + Tile::kLanes, sum[r][1]);
  }
  for (int64_t p = 0; p < depth; ++p) {
    Vector b0, b1;
    LoadFloats(panel + p * Tile::kColumns, b0);
    LoadFloats(panel + p * Tile::kColumns + Tile::kLanes, b1);
    __builtin_prefetch(coming + p * kLineBytes, 0, 2);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float value = strip[p * Tile::kRows + r];
      sum[r][0] += value * b0;
      sum[r][1] += value * b1;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    StoreFloats(sum[r][0], sums.data + r * sums.row);
    StoreFloats(sum[r][1], sums.data + r * sums.row + Tile::kLanes);
  }
}

// The same for `rows` rows, at most kRows.
template <Isa kIsa, int kRows>
SNUG_INLINE void MultiplyStrip(int64_t rows, int64_t depth, const float* strip, const float* panel, const char* coming,
                               const Sums& sums) {
  if (rows == kRows) return MultiplyRows<kIsa, kRows>(depth, strip, panel, coming, sums);
  if constexpr (kRows > 1) MultiplyStrip<kIsa, kRows - 1>(rows, depth, strip, panel, coming, sums);
}

// A rectangle of c.
struct Rectangle {
  int64_t i, j, rows, columns;
};

// Adds up the products of rows [begin, end) of the factors; the first sum of the rectangle is at `sums`.
template <Isa kIsa, class T>
SNUG_INLINE void AddPart(const TallCall<T>& call, const Cut& cut, const Rectangle& at, int64_t begin, int64_t end,
                         float* sums) {
  using Tile = GemmTile<kIsa, float>;
  constexpr int64_t kElement = sizeof(T);
  alignas(kLineBytes) float packed[kPackedFloats];
  float* const strips = packed;
  // Vectors of panels begin with lines, so that none lies in two.
  float* const panels = packed + Parts(cut.rows * cut.depth, kLineFloats) * kLineFloats;
  for (int64_t p = begin; p < end; p += cut.depth) {
    const int64_t depth = std::min(cut.depth, end - p);
    PackRows<kIsa, Tile::kRows>(depth, at.rows, call.a + p * call.m + at.i, call.m, strips);
    PackRows<kIsa, Tile::kColumns>(depth, at.columns, call.b + p * call.n + at.j, call.n, panels);
    const int64_t next = p + depth, next_rows = std::min(cut.depth, end - next);
    Coming coming(call.a + next * call.m, next_rows * call.m * kElement, call.b + next * call.n,
                  next_rows * call.n * kElement);
    for (int64_t j = 0; j < at.columns; j += Tile::kColumns) {
      for (int64_t i = 0; i < at.rows; i += Tile::kRows) {
        MultiplyStrip<kIsa, Tile::kRows>(std::min<int64_t>(Tile::kRows, at.rows - i), depth, strips + i * depth,
                                         panels + j * depth, coming.Take(depth),
                                         {sums + i * cut.sums_row() + j, cut.sums_row(), p > begin});
      }
    }
  }
}

}  // namespace
}  // namespace tall

bool IsTall(int64_t m, int64_t n, int64_t k) {
  // With more sums the blocked product is as fast, which keeps one of each.
  constexpr int64_t kLargest = tall::kMostSums / 8;
  const tall::Cut cut(m, n, k);
  return cut.parts > 1 && cut.sums <= kLargest;
}

template <class T>
void MultiplyTall(int threads, const TallCall<T>& asked, float* workspace) {
  const tall::Cut cut(asked.m, asked.n, asked.k);
  TallCall<T> call = asked;
  if (cut.swapped) {
    std::swap(call.m, call.n);
    std::swap(call.a, call.b);
  }
  const int64_t tasks = cut.row_tasks * cut.column_tasks;
  ParallelFor(threads, cut.parts * tasks, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t part = task / tasks;
      const int64_t i = task % tasks / cut.column_tasks * cut.rows, j = task % cut.column_tasks * cut.columns;
      const tall::Rectangle at = {i, j, std::min(cut.rows, call.m - i), std::min(cut.columns, call.n - j)};
      const int64_t begin = call.k * part / cut.parts, end = call.k * (part + 1) / cut.parts;
      float* sums = workspace + part * cut.sums + i * cut.sums_row() + j;
      WithIsa([&](auto isa) SNUG_LAMBDA { tall::AddPart<isa()>(call, cut, at, begin, end, sums); });
    }
  });
  const int64_t c_row = cut.swapped ? 1 : call.n, c_column = cut.swapped ? call.m : 1;
  constexpr int64_t kChunk = 8;
  ParallelFor(threads, call.m, kChunk, [&](int64_t begin, int64_t end) {
    WithIsa([&]() SNUG_LAMBDA {
      for (int64_t i = begin; i < end; ++i) {
        float* sums = workspace + i * cut.sums_row();
        for (int64_t part = 1; part < cut.parts; ++part) {
          const float* more = sums + part * cut.sums;
          SNUG_INDEPENDENT
          for (int64_t j = 0; j < call.n; ++j) sums[j] += more[j];
        }
        for (int64_t j = 0; j < call.n; ++j) call.c[i * c_row + j * c_column] = static_cast<T>(sums[j]);
      }
    });
  });
}

int64_t TallWorkspaceBytes(int64_t m, int64_t n, int64_t k) {
  const tall::Cut cut(m, n, k);
  return cut.parts * cut.sums * static_cast<int64_t>(sizeof(float));
}

template void MultiplyTall(int, const TallCall<float>&, float*);
template void MultiplyTall(int, const TallCall<BFloat16>&, float*);

}  // namespace snug::core
