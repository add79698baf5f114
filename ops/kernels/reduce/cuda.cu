// The reductions of the model file, and the gradient of the largest, by CUDA kernels.
#include "ops/kernels/reduce/cuda.h"
#include "ops/kit/cuda/reduce.h"
#include "ops/kit/dispatch.h"

namespace snug::core {
namespace {

// For each element 1 if it equals its output's largest, else 0.
template <class T, int kOutputs>
struct AreLargest {
  using A = Accumulator<T>;
  StoredElements<T> stored;
  A largest[kOutputs];

  template <bool kWhole, int kPack>
  __device__ CudaPack<A, kPack> At(int64_t at) const {
    const CudaPack<T, kPack> x = stored.template At<kWhole, kPack>(at);
    CudaPack<A, kPack> are;
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      are.values[j] = static_cast<A>(x.values[j]) == largest[kOutputs == 1 ? 0 : j] ? A(1) : A(0);
    }
    return are;
  }
};

// A team counts how many elements of its outputs are largest, then writes their gradient.
template <bool kWhole, class T, class Shape>
__global__ void MaxGradKernel(Shape shape, const T* x, const T* y, const T* dy, T* dx) {
  using A = Accumulator<T>;
  constexpr int kOutputs = ReducePlace<Shape>::kOutputs;
  constexpr int kPack = Shape::kPack;
  const ReducePlace<Shape> place(shape, blockIdx.x, 0);
  AreLargest<T, kOutputs> are = {.stored = {x}, .largest = {}};
  A shares[kOutputs] = {};
#pragma unroll
  for (int j = 0; j < kOutputs; ++j) {
    if (place.idle) continue;
    const int64_t at = shape.KeptY(place.output + j);
    are.largest[j] = static_cast<A>(y[at]);
    shares[j] = static_cast<A>(dy[at]);
  }
  double counts[kOutputs];
  ReducePart<SumOp, A, kWhole>(shape, place, are, counts);
#pragma unroll
  for (int j = 0; j < kOutputs; ++j) shares[j] /= static_cast<A>(counts[j]);

  const auto share = [&](A is, int j) { return static_cast<T>(is != A(0) ? shares[kOutputs == 1 ? 0 : j] : A(0)); };
  for (int64_t i = place.begin; i < place.end; i += place.step) {
    const int64_t at = place.At(shape, i);
    const auto found = are.template At<kWhole, kPack>(at);
    CudaPack<T, kPack> gradient;
#pragma unroll
    for (int j = 0; j < kPack; ++j) gradient.values[j] = share(found.values[j], j);
    StorePack<kWhole>(gradient, dx + at, kPack);
  }
  for (int64_t i = place.tail; i < shape.reduced; i += place.step) {
    const int64_t at = place.base + shape.ReducedX(i);
    dx[at] = share(are.template At<true, 1>(at).values[0], 0);
  }
}

}  // namespace

template <class Op>
absl::Status ReduceCuda(const KernelContext& k, const ReducePlan& plan, double factor) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return ReduceOnCuda<Op>(k, plan, k.input<T>(0), k.output<T>(0), factor);
  });
}
template absl::Status ReduceCuda<SumOp>(const KernelContext&, const ReducePlan&, double);
template absl::Status ReduceCuda<MaxOp>(const KernelContext&, const ReducePlan&, double);

absl::Status SumPortCuda(const KernelContext& k, const ReducePlan& plan, int x, int y) {
  return DispatchFloating(k.output_type(y).dtype, [&](auto zero) {
    using T = decltype(zero);
    return ReduceOnCuda<SumOp>(k, plan, k.input<T>(x), k.output<T>(y), 1);
  });
}

absl::Status ReduceMaxGradCuda(const KernelContext& k, const ReducePlan& plan) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const CudaReduceSpread spread = CudaReduceSpread(plan, DTypeOf<T>::value).InOnePart();
    const T* x = k.input<T>(0);
    T* dx = k.output<T>(0);
    return WithReduceShape<T>(plan, spread, 1, AllAligned(x, dx),
                              [&]<class Shape, bool kWhole>(const Shape& shape, std::bool_constant<kWhole>) {
                                return k.cuda()->Launch(MaxGradKernel<kWhole, T, Shape>,
                                                        {.blocks = spread.blocks, .threads = kCudaThreads}, shape, x,
                                                        k.input<T>(1), k.input<T>(2), dx);
                              });
  });
}

}  // namespace snug::core
