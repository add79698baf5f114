// Says how a reduction is spread over a CUDA device, by its shape alone: kernels and those who plan their workspace
// have to agree on it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernels/reduce/reduce.h"

namespace snug::core {

struct CudaReduceParts {
  explicit CudaReduceParts(const ReducePlan& plan) {
    const int64_t outputs = std::max<int64_t>(plan.kept_x.count(), 1);
    const int64_t reduced = plan.reduced_x.count();
    by_block = !plan.inner_kept && reduced >= 64;
    const int64_t worthwhile = by_block ? reduced / (1 << 12) : reduced / 16;
    const int64_t useful = (by_block ? 1 << 10 : 1 << 16) / outputs;
    parts = std::clamp<int64_t>(std::min(worthwhile, useful), 1, 256);
  }
  int64_t WorkspaceBytes(const ReducePlan& plan) const {  // each part of each output needs a double
    return parts == 1 ? 0 : parts * plan.kept_x.count() * static_cast<int64_t>(sizeof(double));
  }

  bool by_block;  // a block of threads for each output and part; otherwise one thread
  int64_t parts;  // each output is summed in so many
};

}  // namespace snug::core
