// How the threads of a device walk through a reduction: the order in which numbers are combined follows from what
// CudaReduceSpread (reduce_spread.h) says of types and shapes, whether elements are read (reduce.h) or
// computed by a fused kernel, and whether they are read 16 bytes at a time or one by one. So the bits are the same. It
// is for .cu files and for NVRTC.
//
// A thread has packs of kPack neighbours. Where the innermost axis is kept (kColumns), they are of kPack outputs side
// by side, and the thread goes down the elements that are reduced; otherwise they are of one output. What a thread has
// makes a total for each output, and the threads of a team, which are 2^team_bits of a block with 2^across_bits packs
// side by side, combine their totals. So where rows are reduced a team's threads have neighbouring packs of one row.
//
//   struct Shape {
//     static constexpr bool kColumns;
//     static constexpr int kPack;
//     int64_t outputs, reduced;       // how many results, and of how many elements each
//     int64_t steps_in_part;          // steps are packs of an output, or (kColumns) elements of it
//     int parts;                      // each output is reduced in so many, by different blocks
//     int across_bits, team_bits, combine_bits;
//     bool like_outputs;              // result i lies at i
//     double factor;                  // by which results are multiplied
//     int64_t KeptX(int64_t output) const;   // where the output's first element lies
//     int64_t ReducedX(int64_t i) const;     // and the i-th element from there
//     int64_t KeptY(int64_t output) const;   // where the result lies
//   };
//
// All are numbers of a launch, or constants in a fused kernel's source.
#pragma once

#include <cstdint>

#include "ops/kit/cuda/pack.h"
#include "ops/kit/cuda/reduce_steps.h"
#include "ops/kit/cuda/threads.h"

namespace snug::core {

// What a thread of a block does in a part of a reduction.
template <class Shape>
struct ReducePlace {
  static constexpr int kOutputs = Shape::kColumns ? Shape::kPack : 1;  // of a thread
  static constexpr int kInStep = Shape::kColumns ? 1 : Shape::kPack;   // elements of an output

  int64_t output;  // the first of the thread's
  int64_t base;    // where its first element lies
  int64_t begin, end, step;
  int64_t tail;  // elements of an output that fill no pack are done one by one, from here on
  int first;     // the thread's number in its team, whose first one stores
  bool idle;     // there are no such outputs

  __device__ ReducePlace(const Shape& shape, int64_t block, int64_t part) {
    const auto thread = static_cast<int>(threadIdx.x);
    const int across = Shape::kColumns ? shape.across_bits : 0;
    const int64_t team = block * (kCudaThreads >> shape.team_bits) + (thread >> shape.team_bits);
    first = (thread & ((1 << shape.team_bits) - 1)) >> across;
    output = ((team << across) + (thread & ((1 << across) - 1))) * kOutputs;
    idle = output >= shape.outputs;
    base = idle ? 0 : shape.KeptX(output);
    const int64_t steps = shape.reduced / kInStep;
    begin = part * shape.steps_in_part;
    end = begin + shape.steps_in_part < steps ? begin + shape.steps_in_part : steps;
    begin += first;
    step = int64_t{1} << (shape.team_bits - across);
    tail = part + 1 == shape.parts ? steps * kInStep + first : shape.reduced;
    if (idle) {
      end = begin;
      tail = shape.reduced;
    }
  }
  // Returns where the pack of a step lies.
  __device__ int64_t At(const Shape& shape, int64_t i) const { return base + shape.ReducedX(i * kInStep); }
};

// Combines the totals of a team's threads: by shuffles in a warp, then through shared memory. All threads of the block
// call it, once, and each gets its team's results.
template <class Op, int kTotals>
__device__ inline void CombineTeam(int across_bits, int team_bits, double (&totals)[kTotals]) {
  constexpr int kWarpBits = 5;
  for (int bit = across_bits; bit < team_bits && bit < kWarpBits; ++bit) {
#pragma unroll
    for (int j = 0; j < kTotals; ++j) {
      totals[j] = Op::Combine(totals[j], __shfl_xor_sync(0xffffffffU, totals[j], 1 << bit));
    }
  }
  if (team_bits <= kWarpBits) return;
  __shared__ double of_warps[kCudaThreads / 32][64];  // (kTotals << across_bits) <= 64
  const auto thread = static_cast<int>(threadIdx.x);
  const int across = thread & ((1 << across_bits) - 1);
  if ((thread & 31) == across) {
#pragma unroll
    for (int j = 0; j < kTotals; ++j) of_warps[thread / 32][across * kTotals + j] = totals[j];
  }
  __syncthreads();
  const int warp = thread >> team_bits << (team_bits - kWarpBits);  // the team's first
#pragma unroll
  for (int j = 0; j < kTotals; ++j) totals[j] = of_warps[warp][across * kTotals + j];
  for (int w = 1; w < 1 << (team_bits - kWarpBits); ++w) {
#pragma unroll
    for (int j = 0; j < kTotals; ++j) totals[j] = Op::Combine(totals[j], of_warps[warp + w][across * kTotals + j]);
  }
}

// Reduces a part of a thread's outputs; each thread of a team gets the results. elements.At<kWhole, kPack>(at) returns
// the kPack elements that lie at `at`.
template <class Op, class A, bool kWhole, class Shape, class Elements>
__device__ inline void ReducePart(const Shape& shape, const ReducePlace<Shape>& place, const Elements& elements,
                                  double (&totals)[ReducePlace<Shape>::kOutputs]) {
  ReducePacks<Op, A>(
      place.begin, place.end, place.step,
      [&](int64_t i) { return elements.template At<kWhole, Shape::kPack>(place.At(shape, i)); }, totals);
  if constexpr (!Shape::kColumns && Shape::kPack > 1) {
    for (int64_t i = place.tail; i < shape.reduced; i += place.step) {
      const auto last = elements.template At<true, 1>(place.base + shape.ReducedX(i));
      totals[0] = Op::Combine(totals[0], static_cast<double>(static_cast<A>(last.values[0])));
    }
  }
  CombineTeam<Op>(Shape::kColumns ? shape.across_bits : 0, shape.team_bits, totals);
}

// Stores the results of outputs side by side.
template <class A, bool kWhole, class Shape, class T, int kOutputs>
__device__ inline void StoreResults(const Shape& shape, int64_t output, const double (&totals)[kOutputs], T* y) {
  CudaPack<T, kOutputs> results;
#pragma unroll
  for (int j = 0; j < kOutputs; ++j) results.values[j] = static_cast<T>(static_cast<A>(totals[j] * shape.factor));
  if (shape.like_outputs) {
    StorePack<kWhole>(results, y + output, kOutputs);
    return;
  }
#pragma unroll
  for (int j = 0; j < kOutputs; ++j) y[shape.KeptY(output + j)] = results.values[j];
}

// What a block does. `partials` are [outputs, parts], unless there is one part.
template <class Op, class A, bool kWhole, class Shape, class Elements, class T>
__device__ inline void ReduceInBlock(const Shape& shape, int64_t block, int64_t part, const Elements& elements, T* y,
                                     double* partials) {
  constexpr int kOutputs = ReducePlace<Shape>::kOutputs;
  const ReducePlace<Shape> place(shape, block, part);
  double totals[kOutputs];
  ReducePart<Op, A, kWhole>(shape, place, elements, totals);
  if (place.first > 0 || place.idle) return;
  if (shape.parts == 1) {
    StoreResults<A, kWhole>(shape, place.output, totals, y);
    return;
  }
#pragma unroll
  for (int j = 0; j < kOutputs; ++j) partials[(place.output + j) * shape.parts + part] = totals[j];
}

// Combines the parts of each output: 2^combine_bits threads do.
template <class Op, class A, class Shape, class T>
__device__ inline void CombineInBlock(const Shape& shape, int64_t block, const double* partials, T* y) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int64_t output = block * (kCudaThreads >> shape.combine_bits) + (thread >> shape.combine_bits);
  const int first = thread & ((1 << shape.combine_bits) - 1);
  const double* own = partials + output * shape.parts;
  double total[1] = {ReduceInSteps<Op, double>(first, output < shape.outputs ? shape.parts : 0, 1 << shape.combine_bits,
                                               [&](int64_t i) { return own[i]; })};
  CombineTeam<Op>(0, shape.combine_bits, total);
  if (first == 0 && output < shape.outputs) StoreResults<A, true>(shape, output, total, y);
}

}  // namespace snug::core
