// What the source of a fused kernel with a reduction at its end (fused_source.h) begins with: the reduction of
// cuda_reduce.h, in the same parts and the same sequence, of elements that are computed instead of read. It is compiled
// by NVRTC. Nothing of the engine includes it.
//
// `Shape` has the reduction's sizes as constants, and where elements lie: output i's first one in what is reduced
// (KeptX), the i-th of those that go into one output, from there (ReducedX), output i (KeptY).
#pragma once

#include "ops/lib/cuda_reduce_steps.h"
#include "ops/lib/fused_prelude.h"
#include "ops/lib/reduce_ops.h"

namespace snug {

// Part `unit / kOutputs` of output `unit % kOutputs`: by one thread, or by all of a block, each from its `first` on.
// element(at): what would lie at `at`, were it stored.
template <class Shape, class Op, class A, class Element>
__device__ inline double ReduceUnit(const Element& element, int64_t unit, int64_t first, int64_t step) {
  const int64_t part = unit / Shape::kOutputs;
  const int64_t base = Shape::KeptX(unit % Shape::kOutputs);
  return ReduceInSteps<Op, A>(Shape::kReduced * part / Shape::kParts + first,
                              Shape::kReduced * (part + 1) / Shape::kParts, step,
                              [&](int64_t i) { return element(base + Shape::ReducedX(i)); });
}

template <class Shape, class T>
__device__ inline void StoreResult(void* y, int64_t output, double total) {
  static_cast<T*>(y)[Shape::KeptY(output)] = static_cast<T>(static_cast<Accumulator<T>>(total * Shape::kFactor));
}

// A unit's total: the result, or one of those that CombineParts goes over.
template <class Shape, class T>
__device__ inline void StoreUnit(void* y, double* partials, int64_t unit, double total) {
  if (Shape::kParts == 1) {
    StoreResult<Shape, T>(y, unit, total);
  } else {
    partials[unit] = total;
  }
}

template <class Shape, class Op, class T>
__device__ inline void CombineParts(void* y, const double* partials) {
  SNUG_FUSED_FOR(output, Shape::kOutputs) {
    double total = partials[output];
    for (int64_t part = 1; part < Shape::kParts; ++part) {
      total = Op::Combine(total, partials[part * Shape::kOutputs + output]);
    }
    StoreResult<Shape, T>(y, output, total);
  }
}

}  // namespace snug
