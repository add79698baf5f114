// The gradient dw = dy^T x of a dense layer's weights, of which each thread makes blocks of rows of its own that an
// update uses at once. x is packed before, as a whole. While a block is multiplied, what the update reads besides is
// asked for: the weights and their slots come from memory, and reading them afterwards takes a quarter of the time.
#pragma once

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>
#include <absl/types/span.h>

#include <cstdint>

#include "ops/kernels/matmul/panels.h"

namespace snug::core {

class PrivateBlocks {
 public:
  // dw is [units, width], made of `rows` rows of x and dy. The update reads `arrays` others of its shape, 3 at most.
  PrivateBlocks(int threads, int64_t units, int64_t width, int64_t rows, int arrays);

  // Says whether they pay: rows are not so long, nor threads so many for them, that blocks would have few rows, and all
  // of this takes less memory than the whole gradient would.
  bool serve() const;

  // The rows of a block, but for the last, which may have fewer.
  int64_t block_rows() const { return block_rows_; }
  int64_t workspace_bytes() const;

  // Calls use(first, rows, gradient) on some thread for each block of rows, whose gradient is [rows, width]. `arrays`
  // are what it reads besides. All elements have the bits that they have in one product (blocked.h).
  absl::Status ForEach(const float* x, const float* dy, absl::Span<const float* const> arrays, float* workspace,
                       absl::FunctionRef<absl::Status(int64_t, int64_t, float*)> use) const;

 private:
  int threads_;
  PanelsShape x_;
  int64_t units_, block_rows_;
  int64_t gradient_, of_thread_;  // floats: of a block of the gradient, and with what it is made of
};

}  // namespace snug::core
