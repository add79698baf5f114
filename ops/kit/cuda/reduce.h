// Reductions on a CUDA device, along any axes: CudaReduceSpread says how, and reduce_walk.h does it. It is for .cu
// files.
#pragma once

#include <cstdint>

#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/reduce_spread.h"
#include "ops/kit/cuda/reduce_walk.h"

namespace snug::core {

// A reduction as kernels walk it (Shape of reduce_walk.h).
template <bool kColumns_, int kPack_>
struct CudaReduceShape {
  static constexpr bool kColumns = kColumns_;
  static constexpr int kPack = kPack_;

  CudaReduceShape(const ReducePlan& plan, const CudaReduceSpread& spread, double by)
      : kept_x(plan.kept_x),
        kept_y(plan.kept_y),
        reduced_x(plan.reduced_x),
        outputs(spread.outputs),
        reduced(plan.reduced_x.count()),
        steps_in_part(spread.steps_in_part),
        parts(spread.parts),
        across_bits(spread.across_bits),
        team_bits(spread.team_bits),
        combine_bits(spread.combine_bits),
        like_outputs(spread.like_outputs),
        factor(by) {}
  SNUG_HOST_DEVICE int64_t KeptX(int64_t output) const { return kept_x.Offset(output); }
  SNUG_HOST_DEVICE int64_t KeptY(int64_t output) const { return kept_y.Offset(output); }
  SNUG_HOST_DEVICE int64_t ReducedX(int64_t i) const { return reduced_x.Offset(i); }

  CudaAxes kept_x, kept_y, reduced_x;
  int64_t outputs, reduced, steps_in_part;
  int parts, across_bits, team_bits, combine_bits;
  bool like_outputs;
  double factor;
};

template <class T>
struct StoredElements {
  const T* x;
  template <bool kWhole, int kPack>
  __device__ CudaPack<T, kPack> At(int64_t at) const {
    return LoadPack<kWhole, kPack>(x + at, kPack);
  }
};

template <class Op, bool kWhole, class T, class Shape>
__global__ void ReduceKernel(Shape shape, const T* x, T* y, double* partials) {
  ReduceInBlock<Op, Accumulator<T>, kWhole>(shape, blockIdx.x, blockIdx.y, StoredElements<T>{x}, y, partials);
}

template <class Op, class T, class Shape>
__global__ void CombinePartsKernel(Shape shape, const double* partials, T* y) {
  CombineInBlock<Op, Accumulator<T>>(shape, blockIdx.x, partials, y);
}

// Calls run(shape, whole) with the shape of a reduction of T; `whole`, a bool_constant, says that packs are read and
// written at once, as all arrays begin at multiples of 16 bytes.
template <class T, class Run>
absl::Status WithReduceShape(const ReducePlan& plan, const CudaReduceSpread& spread, double factor, bool aligned,
                             const Run& run) {
  const auto with = [&]<bool kColumns>(std::bool_constant<kColumns>) -> absl::Status {
    if (spread.pack == 1) return run(CudaReduceShape<kColumns, 1>(plan, spread, factor), std::true_type());
    const CudaReduceShape<kColumns, kCudaPack<T>> shape(plan, spread, factor);
    return aligned ? run(shape, std::true_type()) : run(shape, std::false_type());
  };
  return spread.columns ? with(std::true_type()) : with(std::false_type());
}

// Computes y = factor * (x reduced). The workspace has CudaReduceSpread's bytes.
template <class Op, class T>
absl::Status ReduceOnCuda(const KernelContext& k, const ReducePlan& plan, const T* x, T* y, double factor = 1) {
  const CudaReduceSpread spread(plan, DTypeOf<T>::value);
  auto* const partials = k.workspace<double>();
  return WithReduceShape<T>(
      plan, spread, factor, AllAligned(x, y),
      [&]<class Shape, bool kWhole>(const Shape& shape, std::bool_constant<kWhole>) {
        SNUG_RETURN_IF_ERROR(k.cuda()->Launch(
            ReduceKernel<Op, kWhole, T, Shape>,
            {.blocks = spread.blocks, .blocks_y = spread.parts, .threads = kCudaThreads}, shape, x, y, partials));
        if (spread.parts == 1) return absl::OkStatus();
        return k.cuda()->Launch(CombinePartsKernel<Op, T, Shape>,
                                {.blocks = spread.combine_blocks(), .threads = kCudaThreads}, shape, partials, y);
      });
}

}  // namespace snug::core
