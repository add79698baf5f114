// Integer labels, and means over the rows that count, as the losses' and metrics' CUDA kernels have them. It is for .cu
// files.
#pragma once

#include <limits>

#include "ops/kernel_context.h"
#include "ops/kernels/reduce/combine.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/reduce_steps.h"

namespace snug::core {

// Labels of 4 or 8 bytes. Null: there are none, and every row counts.
struct IntegerLabels {
  const void* values;
  bool wide;
  __device__ int64_t At(int64_t r) const {
    return wide ? static_cast<const int64_t*>(values)[r] : static_cast<const int32_t*>(values)[r];
  }
};

// Returns an input as labels.
inline IntegerLabels LabelsOf(const KernelContext& k, int input) {
  return {k.input<void>(input), k.input_type(input).dtype == DType::kInt64};
}

// Counts the rows whose label is not the ignored one. All threads of a block call it, and all get the result.
__device__ inline double CountRows(const IntegerLabels& labels, int64_t rows, int64_t ignored) {
  if (labels.values == nullptr) return static_cast<double>(rows);
  return BlockReduce<SumOp>(ReduceInSteps<SumOp, double>(
      threadIdx.x, rows, blockDim.x, [&](int64_t r) { return labels.At(r) == ignored ? 0.0 : 1.0; }));
}

// Where the mean of rows goes, and, unless it is null, whether it is finite.
template <class S>
struct MeanOfRows {
  const double* values;
  IntegerLabels labels;
  int64_t ignored;
  S* mean;
  uint8_t* finite = nullptr;

  // All threads of a block call it, after a barrier if they have written the values.
  __device__ void Take(int64_t rows) const {
    const double total = BlockReduce<SumOp>(
        ReduceInSteps<SumOp, double>(threadIdx.x, rows, blockDim.x, [&](int64_t r) { return values[r]; }));
    const double count = CountRows(labels, rows, ignored);
    if (threadIdx.x != 0) return;
    const S result = static_cast<S>(total / count);
    *mean = result;
    if (finite != nullptr) *finite = (result < S(0) ? -result : result) <= std::numeric_limits<S>::max() ? 1 : 0;
  }
  // Does it at the end of a kernel that is one block and whose threads all come here.
  __device__ void TakeIfAlone(int64_t rows) const {
    if (gridDim.x > 1) return;
    __syncthreads();
    Take(rows);
  }
};

// These run as one block.
template <class S>
__global__ void MeanKernel(int64_t rows, MeanOfRows<S> mean) {
  mean.Take(rows);
}
static __global__ void CountKernel(int64_t rows, IntegerLabels labels, int64_t ignored, double* count) {
  const double total = CountRows(labels, rows, ignored);
  if (threadIdx.x == 0) *count = total;
}

inline constexpr cuda::LaunchShape kOneBlock = {.threads = kCudaThreads};

// Launches what is left after a kernel of so many blocks, which ends with TakeIfAlone.
template <class S>
absl::Status TakeMean(const KernelContext& k, int64_t blocks, int64_t rows, const MeanOfRows<S>& mean) {
  if (blocks == 1) return absl::OkStatus();
  return k.cuda()->Launch(MeanKernel<S>, kOneBlock, rows, mean);
}

}  // namespace snug::core
