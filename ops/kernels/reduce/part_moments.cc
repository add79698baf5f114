#include "ops/kernels/reduce/part_moments.h"

#include <algorithm>

#include "engine/base/parallel.h"
#include "ops/kernels/matmul/parts.h"

namespace snug::core {
namespace {

constexpr int64_t kPartRows = 96;  // of a matrix that is there already

}  // namespace

void MeasureColumns(int threads, int64_t rows, int64_t columns, const float* data, const ColumnMoments& asked) {
  const int64_t parts = Parts(rows, kPartRows);
  const PartMoments moments(parts, columns, asked);
  ParallelFor(threads, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = part * kPartRows, count = std::min(kPartRows, rows - first);
      moments.SetRows(part, count);
      WithIsa([&](auto isa) SNUG_LAMBDA {
        moments.Measure<isa()>(part, 0, columns, count,
                               [=](int64_t i) SNUG_LAMBDA { return data + (first + i) * columns; });
      });
    }
  });
  moments.PutTogether(threads);
}

int64_t MeasureColumnsBytes(int64_t rows, int64_t columns) {
  return PartMoments::WorkspaceBytes(Parts(rows, kPartRows), columns);
}

void PartMoments::PutTogether(int threads) const {
  constexpr int64_t kColumns = 16;  // at a time: a line of memory
  ParallelFor(threads, columns_, kColumns, [this](int64_t begin, int64_t end) {
    WithIsa([=, this]() SNUG_LAMBDA {
      const int64_t n = end - begin;
      double rows = 0, mean[kColumns] = {}, squares[kColumns] = {};
      for (int64_t part = 0; part < parts_; ++part) {
        const double count = static_cast<double>(asked_.workspace[part]);
        const float* const of_part = sums_ + part * 2 * columns_ + begin;
        rows += count;
        for (int64_t c = 0; c < n; ++c) mean[c] += count * static_cast<double>(of_part[c]);
      }
      for (int64_t c = 0; c < n; ++c) mean[c] /= rows;
      for (int64_t part = 0; part < parts_; ++part) {
        const double count = static_cast<double>(asked_.workspace[part]);
        const float* const of_part = sums_ + part * 2 * columns_ + begin;
        for (int64_t c = 0; c < n; ++c) {
          const double off = static_cast<double>(of_part[c]) - mean[c];
          squares[c] += static_cast<double>(of_part[columns_ + c]) + count * off * off;
        }
      }
      for (int64_t c = 0; c < n; ++c) {
        asked_.mean[begin + c] = static_cast<float>(mean[c]);
        asked_.var[begin + c] = static_cast<float>(squares[c] < 0 ? 0 : squares[c] / rows);  // a NaN stays one
      }
    });
  });
}

}  // namespace snug::core
