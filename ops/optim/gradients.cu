#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/few_rows.h"
#include "ops/kernels/reduce/combine.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/reduce_steps.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/optim/gradients_cuda.h"

namespace snug::core {
namespace {

// The first input's block sets y. Of the others', every thread that finds a number that is not finite writes 0: they
// all write the same, so they need not agree.
template <int kPack, class T>
__global__ void AllFiniteKernel(int64_t packs, bool sets, const T* x, uint8_t* y) {
  using A = Accumulator<T>;
  bool finite = true;
  SNUG_CUDA_FOR(i, packs) {
    const auto pack = LoadPack<true, kPack>(x + i * kPack, kPack);
    for (int j = 0; j < kPack; ++j) {
      const A value = static_cast<A>(pack.values[j]);
      finite = finite && (value < A(0) ? -value : value) <= std::numeric_limits<A>::max();
    }
  }
  if (sets) {
    const bool all = BlockReduce<MaxOp>(finite ? 0.0F : 1.0F) == 0.0F;
    if (threadIdx.x == 0) *y = all ? 1 : 0;
  } else if (!finite) {
    *y = 0;
  }
}
__global__ void SetKernel(uint8_t value, uint8_t* y) { *y = value; }

// y may be g.
template <int kPack, class T>
__global__ void ClipKernel(int64_t packs, double max_norm, const Float32Port<T>* norm, const T* g, T* y) {
  using A = Accumulator<T>;
  const A scale = static_cast<A>(ClippingFactor(max_norm, static_cast<double>(*norm)));
  SNUG_CUDA_FOR(i, packs) {
    auto pack = LoadPack<true, kPack>(g + i * kPack, kPack);
    for (int j = 0; j < kPack; ++j) pack.values[j] = static_cast<T>(static_cast<A>(pack.values[j]) * scale);
    StorePack<true>(pack, y + i * kPack, kPack);
  }
}

// The sums of squares of all gradients follow each other in the workspace. Each gradient has a few, one from each
// block.
int64_t NormBlocks(int64_t n) { return std::clamp<int64_t>(cuda::CountBlocks(n, 1 << 13), 1, 1 << 10); }

template <int kPack, class T>
__global__ void SquaresKernel(int64_t packs, const T* g, double* sums) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const double own = ReduceInSteps<SumOp, double>(first, packs, step, [&](int64_t i) {
    const auto pack = LoadPack<true, kPack>(g + i * kPack, kPack);
    double squares = 0;
    for (int j = 0; j < kPack; ++j) {
      const double value = static_cast<double>(static_cast<Accumulator<T>>(pack.values[j]));
      squares += value * value;
    }
    return squares;
  });
  const double sum = BlockReduce<SumOp>(own);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <class S>
__global__ void RootKernel(int64_t n, const double* sums, S* norm) {
  const double own = ReduceInSteps<SumOp, double>(threadIdx.x, n, blockDim.x, [&](int64_t i) { return sums[i]; });
  const double total = BlockReduce<SumOp>(own);
  if (threadIdx.x == 0) *norm = static_cast<S>(sqrt(total));
}

}  // namespace

absl::Status AllFiniteCuda(const KernelContext& k) {
  auto* y = k.output<uint8_t>(0);
  const bool sets = k.num_inputs() > 0 && OneBlockTestsFinite(k.input_type(0).num_elements());
  if (!sets) SNUG_RETURN_IF_ERROR(k.cuda()->Launch(SetKernel, {.threads = 1}, uint8_t{1}, y));
  for (int i = 0; i < k.num_inputs(); ++i) {
    SNUG_RETURN_IF_ERROR(DispatchFloating(k.input_type(i).dtype, [&](auto zero) {
      using T = decltype(zero);
      const int64_t n = k.input_type(i).num_elements();
      const bool first = sets && i == 0;
      const auto run = [&](auto pack) {
        const cuda::LaunchShape shape = first ? cuda::LaunchShape{.threads = kCudaThreads} : ShapeFor(n / pack);
        return k.cuda()->Launch(AllFiniteKernel<pack(), T>, shape, n / pack, first, k.input<T>(i), y);
      };
      return WithPack<T>(n, run, k.input<T>(i));
    }));
  }
  return absl::OkStatus();
}

absl::Status ClipByNormCuda(const KernelContext& k, double max_norm) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.input_type(0).num_elements();
    const auto run = [&](auto pack) {
      return k.cuda()->Launch(ClipKernel<pack(), T>, ShapeFor(n / pack), n / pack, max_norm, k.input<Float32Port<T>>(1),
                              k.input<T>(0), k.output<T>(0));
    };
    return WithPack<T>(n, run, k.input<T>(0), k.output<T>(0));
  });
}

absl::Status PrepareGlobalNormCuda(PrepareContext& c) {
  int64_t blocks = 0;
  for (const ValueType& type : c.types().inputs) blocks += NormBlocks(type.num_elements());
  c.SetWorkspaceBytes(blocks * static_cast<int64_t>(sizeof(double)));
  return absl::OkStatus();
}

absl::Status GlobalNormCuda(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* sums = k.workspace<double>();
    int64_t done = 0;
    for (int i = 0; i < k.num_inputs(); ++i) {
      const int64_t n = k.input_type(i).num_elements();
      const int64_t blocks = NormBlocks(n);
      const auto run = [&](auto pack) {
        return k.cuda()->Launch(SquaresKernel<pack(), T>, {.blocks = blocks, .threads = kCudaThreads}, n / pack,
                                k.input<T>(i), sums + done);
      };
      SNUG_RETURN_IF_ERROR(WithPack<T>(n, run, k.input<T>(i)));
      done += blocks;
    }
    return k.cuda()->Launch(RootKernel<Float32Port<T>>, {.threads = kCudaThreads}, done, sums,
                            k.output<Float32Port<T>>(0));
  });
}

}  // namespace snug::core
