// What layer_norm and rms_norm share, which normalise each row (the last `axes` axes): shapes, checks and how the work
// is cut; and the sums of chunks that the gradients of norms' weights end with.
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
#include "ops/kit/isa.h"

namespace snug::core {

inline constexpr int64_t kNormChunk = 1 << 15;  // the fewest elements in a piece of work
inline constexpr int64_t kMinNormRows = 16;  // a piece has no fewer rows, so that its sums are few beside its elements

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

// Adds up the chunks' sums in order: sum[i] is that of partial[chunk * step + i] over all chunks, for i in [0, width).
template <class S>
void AddNormChunks(int threads, int64_t chunks, int64_t step, int64_t width, const S* partial, S* sum) {
  constexpr int64_t kColumns = 64;
  ParallelFor(threads, width, kColumns, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      double sums[kColumns];
      const int64_t columns = end - begin;
      for (int64_t j = 0; j < columns; ++j) sums[j] = 0;
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const S* of_chunk = partial + chunk * step + begin;
        for (int64_t j = 0; j < columns; ++j) sums[j] += static_cast<double>(of_chunk[j]);
      }
      for (int64_t j = 0; j < columns; ++j) sum[begin + j] = static_cast<S>(sums[j]);
    });
  });
}

}  // namespace snug::core
