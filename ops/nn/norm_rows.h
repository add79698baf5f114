// What layer_norm and rms_norm share, which normalise each row (the last `axes` axes): shapes, checks, how the work is
// cut, and how the gradients of weight and bias are summed.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdint>

#include "engine/base/parallel.h"
#include "engine/base/shape.h"
#include "engine/base/status.h"
#include "engine/graph/value_type.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/isa.h"
#include "ops/nn/norm_chunks.h"
#include "ops/nn/row_tile.h"

namespace snug::core {

// Sees x as [rows, width].
struct NormRows {
  NormRows(const ValueType& x, int64_t axes) {
    const int split = x.shape.rank() - static_cast<int>(axes);
    rows = x.shape.Count(0, split);
    width = x.shape.Count(split, x.shape.rank());
    rows_per_chunk = std::max(kMinNormRows, kNormChunk / std::max<int64_t>(1, width));
    chunks = (rows + rows_per_chunk - 1) / rows_per_chunk;
  }
  int64_t rows, width, rows_per_chunk, chunks;
};

// The last axes, which a row has; and those before them.
inline Shape ShapeOfRow(const Shape& x, int64_t axes) {
  return Shape(x.dims().subspan(static_cast<size_t>(x.rank() - axes)));
}
inline Shape ShapeOfRows(const Shape& x, int64_t axes) {
  return Shape(x.dims().subspan(0, static_cast<size_t>(x.rank() - axes)));
}

// Checks x, which is input 0, and the options of a row norm.
template <class Message>
absl::Status CheckRowNorm(const InferContext& c) {
  const auto& options = c.options<Message>();
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, kMaxRank));
  const int rank = c.shape(0).rank();
  if (options.axes() < 1 || options.axes() >= rank) {
    return c.OptionError("axes", absl::StrCat("expected 1 to ", rank - 1, " (the batch stays) for input ",
                                              c.shape(0).ToString(), ", found ", options.axes()));
  }
  if (!(options.epsilon() >= 0)) {
    return c.OptionError("epsilon", absl::StrCat("expected at least 0, found ", options.epsilon()));
  }
  return absl::OkStatus();
}

// Calls rows(instruction set, first row, number of rows) for all rows, or tile(the same) where they are short.
template <class Rows, class Tile>
void ForEachNormRows(int threads, const NormRows& view, Rows rows, Tile tile) {
  // Whole tiles, so that short rows leave no part of one at a piece's end.
  const int64_t least = std::max<int64_t>(1, kNormChunk / std::max<int64_t>(1, view.width));
  const int64_t grain = view.width <= kShortRow ? (least + kTileRows - 1) / kTileRows * kTileRows : least;
  ParallelFor(threads, view.rows, grain, [=](int64_t begin, int64_t end) {
    WithIsa([=](auto isa) SNUG_LAMBDA {
      DoRows(
          view.width, begin, end, [=](int64_t row, int64_t count) SNUG_LAMBDA { rows(isa, row, count); },
          [=](int64_t row, int64_t count) SNUG_LAMBDA { tile(isa, row, count); });
    });
  });
}

// The number of elements that `SumOverNormRows` needs for the chunks' sums: [chunks][kSums][width].
template <int kSums>
int64_t NormPartialSums(const NormRows& view) {
  return view.chunks * kSums * view.width;
}

// Does all rows as ForEachNormRows does, and sums over them: rows(instruction set, first row, number of rows, sums)
// adds to kSums sums of each column, sums[s * width + column]; tile(..., lanes) adds to those of each of a tile's rows,
// which are kSums tiles. Rows are summed within chunks, whose size follows from the shape, and the chunks' sums in
// order, so the bits are the same on any number of threads. The sums become the node's outputs from 1 on.
template <int kSums, class S, class Rows, class Tile>
void SumOverNormRows(const KernelContext& k, const NormRows& view, S* partial, Rows rows, Tile tile) {
  const int64_t n = view.width;
  ParallelFor(k.threads(), view.rows, view.rows_per_chunk, [=](int64_t begin, int64_t end) {
    S* sums = partial + begin / view.rows_per_chunk * kSums * n;
    WithIsa([=](auto isa) SNUG_LAMBDA {
      RowTile<S> lanes[kSums];
      if (n <= kShortRow) {
        for (RowTile<S>& of_sum : lanes) std::fill_n(of_sum.at, n * kTileRows, S(0));
      } else {
        std::fill_n(sums, kSums * n, S(0));
      }
      DoRows(
          n, begin, end, [=](int64_t row, int64_t count) SNUG_LAMBDA { rows(isa, row, count, sums); },
          [=, &lanes](int64_t row, int64_t count) SNUG_LAMBDA { tile(isa, row, count, lanes); });
      if (n > kShortRow) return;
      for (int s = 0; s < kSums; ++s) AddTileLanes(n, static_cast<const S*>(lanes[s].at), sums + s * n);
    });
  });
  for (int s = 0; s < kSums; ++s) {
    AddNormChunks(k.threads(), view.chunks, kSums * n, n, partial + s * n, k.output<S>(1 + s));
  }
}

}  // namespace snug::core
