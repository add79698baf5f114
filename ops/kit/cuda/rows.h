// Works through rows of numbers on a CUDA device. A team does each: a warp or a block of threads where rows lie
// together, one thread otherwise. A kernel is a template over the team. It is for .cu files.
//
// Rows that lie together are read 16 bytes at a time where they begin at multiples of that. A row that is not too long
// is read once: each thread holds its packs in registers. Longer ones are streamed.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "ops/cuda_numbers.h"
#include "ops/kernel_context.h"
#include "ops/kernels/reduce/combine.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/reduce_steps.h"
#include "ops/kit/vec_math.h"

namespace snug::core {

// Rows [outer][inner] of `width` numbers, which lie `inner` apart.
struct CudaRows {
  int64_t outer = 1, width = 1, inner = 1;

  SNUG_HOST_DEVICE int64_t count() const { return outer * inner; }
  // Returns where number i of a row lies.
  SNUG_HOST_DEVICE int64_t At(int64_t row, int64_t i) const { return (row / inner * width + i) * inner + row % inner; }
};

struct ThreadTeam {
  static __device__ int64_t FirstRow() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
  static __device__ int64_t RowStep() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }
  static __device__ int64_t First() { return 0; }
  static __device__ int64_t Step() { return 1; }
  template <class Op, class A>
  static __device__ A Combine(A own) {
    return own;
  }
};

struct WarpTeam {
  static constexpr int kThreads = 32;
  static constexpr int kBlock = kCudaThreads;  // threads of a block
  static constexpr int kInBlock = kCudaThreads / kThreads;
  static __device__ int64_t FirstRow() { return static_cast<int64_t>(blockIdx.x) * kInBlock + threadIdx.x / kThreads; }
  static __device__ int64_t RowStep() { return static_cast<int64_t>(gridDim.x) * kInBlock; }
  static __device__ int First() { return static_cast<int>(threadIdx.x) % kThreads; }
  template <class Op, class A>
  static __device__ A Combine(A own) {
    return WarpReduce<Op>(own);
  }
  // What threads of the team have read before may be written by others of it afterwards.
  static __device__ void Sync() { __syncwarp(); }
};

// A few lanes of a warp, for rows that would leave most of a warp idle.
struct LaneTeam {
  static constexpr int kThreads = 8;
  static constexpr int kBlock = kCudaThreads;
  static constexpr int kInBlock = kCudaThreads / kThreads;
  static __device__ int64_t FirstRow() { return static_cast<int64_t>(blockIdx.x) * kInBlock + threadIdx.x / kThreads; }
  static __device__ int64_t RowStep() { return static_cast<int64_t>(gridDim.x) * kInBlock; }
  static __device__ int First() { return static_cast<int>(threadIdx.x) % kThreads; }
  static __device__ unsigned Mask() { return 0xffU << (threadIdx.x % 32 / kThreads * kThreads); }
  template <class Op, class A>
  static __device__ A Combine(A own) {
    for (int lanes = kThreads / 2; lanes > 0; lanes /= 2) {
      own = Op::Combine(own, __shfl_xor_sync(Mask(), own, lanes));
    }
    return own;
  }
  static __device__ void Sync() { __syncwarp(Mask()); }
};

struct BlockTeam {
  static constexpr int kThreads = kCudaThreads;
  static constexpr int kBlock = kThreads;
  static constexpr int kInBlock = 1;
  static __device__ int64_t FirstRow() { return blockIdx.x; }
  static __device__ int64_t RowStep() { return gridDim.x; }
  static __device__ int64_t First() { return threadIdx.x; }
  static __device__ int64_t Step() { return blockDim.x; }
  template <class Op, class A>
  static __device__ A Combine(A own) {
    return BlockReduce<Op>(own);
  }
  static __device__ void Sync() { __syncthreads(); }
};

// A larger block, for long rows that are read twice: so few of them are worked at together that the second-level cache
// still has them the second time.
struct LargeBlockTeam : BlockTeam {
  static constexpr int kThreads = kMostBlockThreads;
  static constexpr int kBlock = kThreads;
};

// Combines load(0) to load(n - 1). All threads of the team call it, and all get the result.
template <class Team, class Op, class A, class Load>
__device__ double TeamReduce(int64_t n, const Load& load) {
  return Team::template Combine<Op>(ReduceInSteps<Op, A>(Team::First(), n, Team::Step(), load));
}

// Launches by_thread or by_block, two instances of one template, for rows.count() rows.
template <class... P>
absl::Status LaunchRows(const KernelContext& k, const CudaRows& rows, void (*by_thread)(P...), void (*by_block)(P...),
                        std::type_identity_t<P>... arguments) {
  if (rows.inner == 1 && rows.width > 32) {
    return k.cuda()->Launch(by_block, {.blocks = std::min<int64_t>(rows.count(), 1 << 16), .threads = kCudaThreads},
                            arguments...);
  }
  return k.cuda()->Launch(by_thread, ShapeFor(rows.count()), arguments...);
}

// Returns the sum of term(number) over the numbers of a pack.
template <class T, int kPack, class Term>
__device__ Accumulator<T> SumOfPack(const CudaPack<T, kPack>& pack, const Term& term) {
  Accumulator<T> sum = 0;
  for (int j = 0; j < kPack; ++j) sum += term(static_cast<Accumulator<T>>(pack.values[j]));
  return sum;
}

// How the packs of a row, whose width is a multiple of kPack, are dealt out to a team: thread t has packs t,
// t + kThreads, ..., of which it holds kHeld in registers. None held: the row is streamed.
template <class Team_, int kPack_, int kHeld_>
struct RowDeal {
  using Team = Team_;
  static constexpr int kPack = kPack_;
  static constexpr int kHeld = kHeld_;

  // Calls fn(n, i) for each of the thread's packs: the n-th, which begins at i.
  template <class Fn>
  static __device__ void Each(int64_t width, const Fn& fn) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int n = 0; n < kHeld; ++n) {
        const int i = (Team::First() + n * Team::kThreads) * kPack;
        if (i < width) fn(n, i);
      }
    } else {
#pragma unroll 4
      for (int64_t i = Team::First() * kPack; i < width; i += Team::kThreads * kPack) fn(0, i);
    }
  }

  // Sums term(n, i), which is the sum of a pack's terms. All threads of the team call it, and all get the result.
  template <class A, class Term>
  static __device__ double Sum(int64_t width, const Term& term) {
    return Team::template Combine<SumOp>(OwnSum<A>(width, term));
  }
  // Returns the part of a thread. At most 64 numbers are added in float.
  template <class A, class Term>
  static __device__ double OwnSum(int64_t width, const Term& term) {
    std::conditional_t<(kHeld > 0), A, double> sum = 0;
    Each(width, [&](int n, auto i) { sum += term(n, i); });
    return static_cast<double>(sum);
  }
};

// A row of a Deal.
template <class T, class Deal>
struct DealtRow {
  using Pack = CudaPack<T, Deal::kPack>;

  const T* row;
  int64_t end;
  Pack held[Deal::kHeld > 0 ? Deal::kHeld : 1];

  __device__ DealtRow(const T* from, int64_t width) : DealtRow(from, width, width) {}
  // Numbers from last_end on pad the row: packs have -infinity there, which adds nothing to the sum of exponentials.
  __device__ DealtRow(const T* from, int64_t width, int64_t last_end) : row(from), end(last_end) {
    if constexpr (Deal::kHeld > 0) {
      Deal::Each(width, [&](int n, int i) { held[n] = Load(i); });
    }
  }
  __device__ Pack At(int n, int64_t i) const {
    if constexpr (Deal::kHeld > 0) {
      return held[n];
    } else {
      return Load(i);
    }
  }
  __device__ Pack Load(int64_t i) const {
    Pack pack = LoadPack<true, Deal::kPack>(row + i, Deal::kPack);
    if (i + Deal::kPack > end) {
      for (int j = 0; j < Deal::kPack; ++j) {
        if (i + j >= end) pack.values[j] = static_cast<T>(-std::numeric_limits<Accumulator<T>>::infinity());
      }
    }
    return pack;
  }
};

// The largest number of a row, and the sum of exp(number - largest).
template <class A>
struct ExpSum {
  A largest;
  double sum;
};

// Computes it in one pass. `also(n, i, pack)` is called for each pack that is read. A row that is streamed is scaled
// anew where a larger number comes (Milakov and Gimelshein 2018).
template <class Deal, class T, class Also>
__device__ ExpSum<Accumulator<T>> SumExponentials(const DealtRow<T, Deal>& row, int64_t width, const Also& also) {
  using A = Accumulator<T>;
  using Team = typename Deal::Team;
  constexpr A kNothing = -std::numeric_limits<A>::infinity();
  A most = kNothing;
  double sum = 0;  // of exp(number - most)
  Deal::Each(width, [&](int n, auto i) {
    const auto pack = row.At(n, i);
    also(n, i, pack);
    A larger = most;
    for (int j = 0; j < Deal::kPack; ++j) larger = MaxOp::Combine(larger, static_cast<A>(pack.values[j]));
    if constexpr (Deal::kHeld == 0) {
      const A base = larger == kNothing ? A(0) : larger;
      A of_pack = 0;
      for (int j = 0; j < Deal::kPack; ++j) of_pack += DeviceExp(static_cast<A>(pack.values[j]) - base);
      if (larger != most) sum *= static_cast<double>(DeviceExp(most - base));  // seldom, after the first packs
      sum += static_cast<double>(of_pack);
    }
    most = larger;
  });
  const A largest = Team::template Combine<MaxOp>(most);
  if constexpr (Deal::kHeld > 0) {
    sum = Deal::template OwnSum<A>(
        width, [&](int n, auto i) { return SumOfPack(row.At(n, i), [&](A v) { return DeviceExp(v - largest); }); });
  } else {
    sum *= static_cast<double>(DeviceExp(most - largest));
  }
  return {largest, Team::template Combine<SumOp>(sum)};
}

// Calls launch(deal, blocks) with the RowDeal for rows of T that lie together. `aligned` says that each array begins at
// a multiple of 16 bytes. If nothing is to be held, rows that a warp could hold are streamed by one. Rows that are too
// long to be held are streamed by the team Streamed.
template <class T, bool kHolds, class Streamed = BlockTeam, class Launch>
absl::Status DealRows(int64_t rows, int64_t width, bool aligned, const Launch& launch) {
  constexpr int kHeld = 4;
  const auto with = [&]<int kPack>(std::integral_constant<int, kPack>) -> absl::Status {
    const auto blocks = [&](int64_t in_block) { return std::min<int64_t>(cuda::CountBlocks(rows, in_block), 1 << 16); };
    if (width <= WarpTeam::kThreads * kPack * kHeld) {
      return launch(RowDeal < WarpTeam, kPack, kHolds ? kHeld : 0 > (), blocks(WarpTeam::kInBlock));
    }
    if constexpr (kHolds) {
      if (width <= BlockTeam::kThreads * kPack * kHeld) return launch(RowDeal<BlockTeam, kPack, kHeld>(), blocks(1));
    }
    return launch(RowDeal<Streamed, kPack, 0>(), blocks(1));
  };
  if constexpr (!std::is_same_v<T, double>) {
    if (aligned && width % kCudaPack<T> == 0) return with(std::integral_constant<int, kCudaPack<T>>());
  }
  return with(std::integral_constant<int, 1>());
}

}  // namespace snug::core
