#include <cmath>

#include "ops/kit/cuda_kernel.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/random_state.h"
#include "ops/random/drop_cuda.h"

namespace snug::core {
namespace {

// Each thread does four elements: those that one counter of the random numbers serves. y may be x.
template <class T>
__global__ void DropElementsKernel(int64_t n, int32_t dropped, Accumulator<T> scale, const int64_t* state,
                                   uint64_t random_id, const T* x, T* y) {
  using A = Accumulator<T>;
  const RandomStream random(state, random_id);
  SNUG_CUDA_FOR(counter, (n + 3) / 4) {
    const auto words = Philox{random.key}(random.stream, static_cast<uint64_t>(counter));
    for (int64_t i = 4 * counter; i < 4 * counter + 4 && i < n; ++i) {
      const A value = static_cast<A>(x[i]) * scale;
      y[i] = static_cast<T>(ToUniformInt(words[static_cast<size_t>(i % 4)]) < dropped ? A(0) : value);
    }
  }
}

// Samples have `width` elements. y may be x.
template <class T>
__global__ void DropSamplesKernel(int64_t n, int64_t width, double rate, Accumulator<T> scale, const int64_t* state,
                                  uint64_t random_id, const T* x, T* y) {
  using A = Accumulator<T>;
  const RandomStream random(state, random_id);
  SNUG_CUDA_FOR(i, n) {
    const bool dropped = ToUniform(random.Word(static_cast<uint64_t>(i / width))) < rate;
    y[i] = static_cast<T>(dropped ? A(0) : static_cast<A>(x[i]) * scale);
  }
}

}  // namespace

absl::Status DropElementsCuda(const KernelContext& k, double rate) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.output_type(0).num_elements();
    return k.cuda()->Launch(DropElementsKernel<T>, ShapeFor((n + 3) / 4), n,
                            static_cast<int32_t>(std::ceil(rate * kUniformRange)),
                            static_cast<Accumulator<T>>(rate < 1 ? 1 / (1 - rate) : 0), k.input<int64_t>(1),
                            k.random_id(), k.input<T>(0), k.output<T>(0));
  });
}

absl::Status DropSamplesCuda(const KernelContext& k, double rate) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const Shape& shape = k.output_type(0).shape;
    const int64_t n = shape.num_elements();
    return k.cuda()->Launch(DropSamplesKernel<T>, ShapeFor(n), n, shape.Count(1, shape.rank()), rate,
                            static_cast<Accumulator<T>>(rate < 1 ? 1 / (1 - rate) : 0), k.input<int64_t>(1),
                            k.random_id(), k.input<T>(0), k.output<T>(0));
  });
}

}  // namespace snug::core
