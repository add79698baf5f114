// How threads share the result of a product: in a grid, of which each takes one rectangle of rows and columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "ops/kernels/matmul/parts.h"

namespace snug::core {

// The `part`-th of `parts` nearly equal runs of `size`, in whole units but for the last.
struct Run {
  Run(int64_t part, int64_t parts, int64_t size, int64_t unit)
      : begin(Parts(size, unit) * part / parts * unit),
        end(std::min(size, Parts(size, unit) * (part + 1) / parts * unit)) {}
  int64_t size() const { return end - begin; }
  int64_t begin, end;
};

class Grid {
 public:
  // Rectangles are of whole units, but for the last row and column of them.
  struct Units {
    int64_t rows, columns;
  };

  // The grid of c [m, n] whose largest part takes the least time, as far as that follows from its size: what is
  // multiplied, and what is packed.
  Grid(int threads, int64_t m, int64_t n, const Units& units) : m_(m), n_(n), units_(units) {
    constexpr int64_t kProductsPerPacked = 24;  // multiply-adds in the time of packing a number
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int64_t down = 1; down <= threads; ++down) {
      if (threads % down != 0) continue;
      const Grid other(m, n, units, down, threads / down);
      const int64_t rows = other.part_rows(), columns = other.part_columns();
      const int64_t cost = rows * columns + kProductsPerPacked * (rows + columns);
      if (cost >= least) continue;
      least = cost;
      down_ = other.down_;
      across_ = other.across_;
    }
  }

  int64_t parts() const { return down_ * across_; }
  Run RowsOf(int64_t part) const { return {part / across_, down_, m_, units_.rows}; }
  Run ColumnsOf(int64_t part) const { return {part % across_, across_, n_, units_.columns}; }

  // The most that any part has, in whole units.
  int64_t part_rows() const { return Parts(Parts(m_, units_.rows), down_) * units_.rows; }
  int64_t part_columns() const { return Parts(Parts(n_, units_.columns), across_) * units_.columns; }

 private:
  Grid(int64_t m, int64_t n, const Units& units, int64_t down, int64_t across)
      : m_(m), n_(n), units_(units), down_(down), across_(across) {}

  int64_t m_, n_;
  Units units_;
  int64_t down_ = 1, across_ = 1;
};

}  // namespace snug::core
