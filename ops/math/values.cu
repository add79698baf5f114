#include <absl/strings/str_cat.h>

#include <limits>

#include "ops/kit/convert.h"
#include "ops/kit/cuda_kernel.h"
#include "ops/kit/dispatch.h"
#include "ops/math/values_cuda.h"

namespace snug::core {
namespace {

constexpr int kMostTerms = 256;  // the most terms in one sum that fit a kernel's arguments

template <class T>
struct Terms {
  int count = 0;
  const T* x[kMostTerms] = {};
};

// y may be any of the terms.
template <class T>
__global__ void SumKernel(int64_t n, const Terms<T> terms, T* y) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    A sum = static_cast<A>(terms.x[0][i]);
    for (int term = 1; term < terms.count; ++term) sum += static_cast<A>(terms.x[term][i]);
    y[i] = static_cast<T>(sum);
  }
}

template <class T>
__global__ void FillKernel(int64_t n, T value, T* y) {
  SNUG_CUDA_FOR(i, n) { y[i] = value; }
}

template <class To, class From>
__global__ void CastKernel(int64_t n, const From* x, To* y) {
  SNUG_CUDA_FOR(i, n) { y[i] = Convert<To>(static_cast<Accumulator<From>>(x[i])); }
}

template <class T, class Index>
__global__ void OneHotKernel(int64_t n, int64_t classes, const Index* indices, T* y) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const int64_t index = indices[i / classes];
    const bool exists = index >= 0 && index < classes;
    y[i] = static_cast<T>(!exists ? std::numeric_limits<A>::quiet_NaN() : index == i % classes ? A(1) : A(0));
  }
}

}  // namespace

absl::Status AddNCuda(const KernelContext& k) {
  if (k.num_inputs() > kMostTerms) {
    return absl::UnimplementedError(
        absl::StrCat("on CUDA a sum has at most ", kMostTerms, " terms, found ", k.num_inputs()));
  }
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Terms<T> terms;
    for (; terms.count < k.num_inputs(); ++terms.count) terms.x[terms.count] = k.input<T>(terms.count);
    const int64_t n = k.output_type(0).num_elements();
    return k.cuda()->Launch(SumKernel<T>, ShapeFor(n), n, terms, k.output<T>(0));
  });
}

absl::Status FillCuda(const KernelContext& k, double value) {
  return DispatchAny(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.output_type(0).num_elements();
    return k.cuda()->Launch(FillKernel<T>, ShapeFor(n), n, static_cast<T>(value), k.output<T>(0));
  });
}

absl::Status CastCuda(const KernelContext& k) {
  return DispatchAny(k.input_type(0).dtype, [&](auto from) {
    return DispatchAny(k.output_type(0).dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      const int64_t n = k.output_type(0).num_elements();
      return k.cuda()->Launch(CastKernel<To, From>, ShapeFor(n), n, k.input<From>(0), k.output<To>(0));
    });
  });
}

absl::Status OneHotCuda(const KernelContext& k, int64_t classes) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return DispatchInteger(k.input_type(0).dtype, [&](auto integer) {
      using T = decltype(zero);
      using Index = decltype(integer);
      const int64_t n = k.output_type(0).num_elements();
      return k.cuda()->Launch(OneHotKernel<T, Index>, ShapeFor(n), n, classes, k.input<Index>(0), k.output<T>(0));
    });
  });
}

}  // namespace snug::core
