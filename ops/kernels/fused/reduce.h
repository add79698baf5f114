// The source of a fused kernel with a reduction at its end (source.h) begins with this: the reduction of
// cuda_reduce.h, in the same parts and the same sequence, but of elements that are computed instead of read. It is
// compiled by NVRTC; nothing of the engine includes it.
//
// `Shape` has the reduction's sizes as constants and says where elements lie. KeptX(i) is the first element of output i
// in what is reduced, ReducedX(i) the distance from there to the i-th element that goes into it, and KeptY(i) output i
// itself.
#pragma once

#include "ops/kernels/fused/prelude.h"
#include "ops/kernels/reduce/combine.h"
#include "ops/kit/cuda_reduce_steps.h"

namespace snug::core {

// Reduces part `unit / kOutputs` of output `unit % kOutputs`. One thread does it, or all of a block do, each from its
// own `first` on. element(at) returns what would lie at `at` if it were stored.
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

// Stores a unit's total: as the result, or as one of the parts that CombineParts adds up.
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

}  // namespace snug::core
