#include <cmath>

#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/random_state.h"
#include "ops/random/drop_cuda.h"

namespace snug::core {
namespace {

constexpr int kAtOnce = 4;  // the elements that one counter of the random numbers serves

// y may be x.
template <class T, bool kWhole>
__global__ void DropElementsKernel(int64_t n, int32_t dropped, Accumulator<T> scale, const int64_t* state,
                                   uint64_t random_id, const T* x, T* y) {
  using A = Accumulator<T>;
  const RandomStream random(state, random_id);
  SNUG_CUDA_FOR(counter, (n + kAtOnce - 1) / kAtOnce) {
    const int64_t first = counter * kAtOnce;
    const int count = n - first < kAtOnce ? static_cast<int>(n - first) : kAtOnce;
    auto pack = LoadPack<kWhole, kAtOnce>(x + first, count);
    const auto words = Philox{random.key}(random.stream, static_cast<uint64_t>(counter));
    for (int j = 0; j < kAtOnce; ++j) {
      const A value = static_cast<A>(pack.values[j]) * scale;
      pack.values[j] = static_cast<T>(ToUniformInt(words[static_cast<size_t>(j)]) < dropped ? A(0) : value);
    }
    StorePack<kWhole>(pack, y + first, count);
  }
}

// `by_width` divides by the elements of a sample. y may be x.
template <class T>
__global__ void DropSamplesKernel(int64_t n, CudaDivisor by_width, double rate, Accumulator<T> scale,
                                  const int64_t* state, uint64_t random_id, const T* x, T* y) {
  using A = Accumulator<T>;
  const RandomStream random(state, random_id);
  SNUG_CUDA_FOR(i, n) {
    const bool dropped = ToUniform(random.Word(static_cast<uint64_t>(by_width.Divide(i)))) < rate;
    y[i] = static_cast<T>(dropped ? A(0) : static_cast<A>(x[i]) * scale);
  }
}

}  // namespace

absl::Status DropElementsCuda(const KernelContext& k, double rate) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.output_type(0).num_elements();
    const bool whole = sizeof(T) * kAtOnce <= 16 && n % kAtOnce == 0 && AllAligned(k.input<T>(0), k.output<T>(0));
    return k.cuda()->Launch(whole ? DropElementsKernel<T, true> : DropElementsKernel<T, false>,
                            ShapeFor(cuda::CountBlocks(n, kAtOnce)), n,
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
    return k.cuda()->Launch(DropSamplesKernel<T>, ShapeFor(n), n, CudaDivisor(shape.Count(1, shape.rank()), n), rate,
                            static_cast<Accumulator<T>>(rate < 1 ? 1 / (1 - rate) : 0), k.input<int64_t>(1),
                            k.random_id(), k.input<T>(0), k.output<T>(0));
  });
}

}  // namespace snug::core
