// Applies the functions of ops/math/functions.h to whole arrays.
//
// Where all operands lie like the output, and begin where 16 bytes do, so many of each are read and written at a time.
// Otherwise each element of the output works out where its operands lie.
#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "ops/kit/broadcast.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/expression.h"
#include "ops/math/functions.h"
#include "ops/math/values_cuda.h"

namespace snug::core {
namespace {

// Gives T once for each type in a pack.
template <class, class T>
using As = T;
template <size_t J>
using At = std::integral_constant<size_t, J>;

// Computes y = f(x[0], x[1], ...) with an Accumulator's precision.
template <class F, class T>
__device__ T Apply(const F& f, T a) {
  return static_cast<T>(f(static_cast<Accumulator<T>>(a)));
}
template <class F, class T>
__device__ T Apply(const F& f, T a, T b) {
  return static_cast<T>(f(static_cast<Accumulator<T>>(a), static_cast<Accumulator<T>>(b)));
}
template <class F, class T>
__device__ T Apply(const F& f, T a, T b, T c) {
  return static_cast<T>(
      f(static_cast<Accumulator<T>>(a), static_cast<Accumulator<T>>(b), static_cast<Accumulator<T>>(c)));
}

// Each thread does a pack of elements at a time; those that are left over in the end are done one by one. y may be any
// of the x.
template <class F, class T, class... X>
__global__ void MapKernel(int64_t n, F f, T* y, X... x) {
  constexpr int kPack = kCudaPack<T>;
  using Pack = CudaPack<T, kPack>;
  SNUG_CUDA_FOR(i, n / kPack) {
    const std::tuple<As<X, Pack>...> packs(LoadPack<true, kPack>(x + i * kPack, kPack)...);
    Pack result;
    for (int j = 0; j < kPack; ++j) {
      result.values[j] = std::apply([&](const auto&... pack) { return Apply<F, T>(f, pack.values[j]...); }, packs);
    }
    StorePack<true>(result, y + i * kPack, kPack);
  }
  const int64_t in_packs = n / kPack * kPack;
  SNUG_CUDA_FOR(i, n - in_packs) { y[in_packs + i] = Apply<F, T>(f, x[in_packs + i]...); }
}

template <class F, class T, class... X>
__global__ void BroadcastMapKernel(int64_t n, F f, T* y, X... x) {
  SNUG_CUDA_FOR(i, n) { y[i] = Apply<F, T>(f, x.values[x.axes.Offset(i)]...); }
}

template <class T>
struct Operand {
  const T* values;
  CudaAxes axes;
};

// How the operands lie beside the output. It is compiled once for each number of operands; what is below, once for each
// function and type, which are hundreds.
template <size_t count>
struct Operands {
  bool lie_alike;
  std::array<CudaAxes, count> axes;
};
template <size_t... J>
[[gnu::noinline]] Operands<sizeof...(J)> OperandsOf(const KernelContext& k, std::index_sequence<J...>) {
  const std::array<BroadcastView, sizeof...(J)> views = {BroadcastView(k.input_type(J), k.output_type(0))...};
  return {(views[J].contiguous() && ...), {views[J].axes()...}};
}

template <class F, class T, size_t... J>
absl::Status Launch(const KernelContext& k, const F& f, std::index_sequence<J...> indices) {
  const int64_t n = k.output_type(0).num_elements();
  T* y = k.output<T>(0);
  const auto operands = OperandsOf(k, indices);
  if (operands.lie_alike && AllAligned(y, k.input<T>(J)...)) {
    const int64_t threads = std::max<int64_t>(n / kCudaPack<T>, 1);
    return k.cuda()->Launch(MapKernel<F, T, As<At<J>, const T*>...>, ShapeFor(threads), n, f, y, k.input<T>(J)...);
  }
  return k.cuda()->Launch(BroadcastMapKernel<F, T, As<At<J>, Operand<T>>...>, ShapeFor(n), n, f, y,
                          Operand<T>{k.input<T>(J), operands.axes[J]}...);
}

}  // namespace

template <class F>
absl::Status ElementwiseOnCuda(const KernelContext& k, const F& f) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return Launch<F, decltype(zero)>(k, f, std::make_index_sequence<kArity<F>>());
  });
}

#define SNUG_FUNCTION(F, ...) template absl::Status ElementwiseOnCuda(const KernelContext&, const functions::F&);
SNUG_FUNCTIONS(SNUG_FUNCTION)
#undef SNUG_FUNCTION

}  // namespace snug::core
