// Losses and metrics by CUDA kernels (losses.cu). They cannot report a label that is no class: the loss is NaN then,
// and so are the gradients of its row.
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"
#include "ops/prepare_context.h"

namespace snug::core {

struct CrossEntropyNumbers {  // what softmax_cross_entropy's options say
  double smoothing;
  int64_t ignored;
  int64_t classes;  // the first so many numbers of a row; the others are padding
};
absl::Status CrossEntropyCuda(const KernelContext& k, const CrossEntropyNumbers& numbers);
absl::Status CrossEntropyGradCuda(const KernelContext& k, const CrossEntropyNumbers& numbers);
// Computes the loss, whether it is finite, and the gradient of the logits where that of the loss is `dloss`.
absl::Status CrossEntropyWithGradCuda(const KernelContext& k, const CrossEntropyNumbers& numbers, double dloss);
absl::Status CrossEntropyTargetGradCuda(const KernelContext& k, const CrossEntropyNumbers& numbers);
absl::Status NllLossCuda(const KernelContext& k, int64_t ignored);
absl::Status NllLossGradCuda(const KernelContext& k, int64_t classes, int64_t ignored);
// Computes the fraction of rows whose label has one of the `most` highest scores.
absl::Status TopKCuda(const KernelContext& k, int64_t most, int64_t ignored);
absl::Status SquaredErrorCuda(const KernelContext& k);
absl::Status SquaredErrorGradCuda(const KernelContext& k);

// These set workspaces: a double for each row of input 0 (its last axis is the row); one for all rows, where blocks do
// not count by themselves; one for each block.
absl::Status PrepareRowsCuda(PrepareContext& c);
absl::Status PrepareCrossEntropyGradCuda(PrepareContext& c);
absl::Status PrepareCrossEntropyWithGradCuda(PrepareContext& c);  // the first two
absl::Status PrepareNllGradCuda(PrepareContext& c);
absl::Status PrepareSquaredErrorCuda(PrepareContext& c);

}  // namespace snug::core
