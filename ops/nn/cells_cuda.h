// The cells of recurrent networks by CUDA kernels (cells.cu): lstm_cell and gru_cell, and their gradients.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "ops/kernel_context.h"

namespace snug::core {

// Where the parts of a row begin.
struct LstmParts {
  int64_t i, f, g, o;
};
struct GruParts {
  int64_t r, z, n;
};

// The state lies as [rows, width].
absl::Status LstmCellCuda(const KernelContext& k, int64_t width, const LstmParts& parts);
absl::Status LstmCellGradCuda(const KernelContext& k, int64_t width, const LstmParts& parts);
absl::Status GruCellCuda(const KernelContext& k, int64_t width, const GruParts& parts);
absl::Status GruCellGradCuda(const KernelContext& k, int64_t width, const GruParts& parts);

}  // namespace snug::core
