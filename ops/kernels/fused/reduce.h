// The source of a fused kernel with a reduction at its end (source.h) begins with this: the reduction of
// kit/cuda/reduce_walk.h, in the same order as kit/cuda/reduce.h's, but of elements that are computed instead of read.
// The source has its `Shape`, with sizes as constants. It is compiled by NVRTC; nothing of the engine includes it.
#pragma once

#include "ops/kernels/fused/prelude.h"
#include "ops/kernels/reduce/combine.h"
#include "ops/kit/cuda/reduce_walk.h"

namespace snug::core {

// What elements are for the walk. Element's Pack<kPack>(i) computes a pack that would lie at i * kPack if it were
// stored, from inputs of which those that lie likewise are read at once.
template <class Element>
struct ComputedElements {
  Element element;

  template <bool kWhole, int kPack>
  __device__ auto At(int64_t at) const {
    if constexpr (kWhole) {
      return element.template Pack<kPack>(static_cast<int64_t>(static_cast<uint64_t>(at) / kPack));
    } else {
      decltype(element.template Pack<kPack>(at)) pack;
      for (int j = 0; j < kPack; ++j) pack.values[j] = element.template Pack<1>(at + j).values[0];
      return pack;
    }
  }
};

template <class Op, bool kWhole, class T, class Shape, class Element>
__device__ inline void ReduceElements(const Element& element, void* y, double* partials) {
  ReduceInBlock<Op, Accumulator<T>, kWhole>(Shape(), blockIdx.x, blockIdx.y, ComputedElements<Element>{element},
                                            static_cast<T*>(y), partials);
}

template <class Op, class T, class Shape>
__device__ inline void CombineParts(void* y, const double* partials) {
  CombineInBlock<Op, Accumulator<T>>(Shape(), blockIdx.x, partials, static_cast<T*>(y));
}

}  // namespace snug::core
