#include <absl/strings/str_cat.h>

#include <limits>
#include <type_traits>

#include "ops/kit/convert.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/together.h"
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
template <int kPack, class T>
__global__ void SumKernel(int64_t packs, const Terms<T> terms, T* y) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, packs) {
    auto result = LoadPack<true, kPack>(terms.x[0] + i * kPack, kPack);
    A sums[kPack];
    for (int j = 0; j < kPack; ++j) sums[j] = static_cast<A>(result.values[j]);
    for (int term = 1; term < terms.count; ++term) {
      const auto pack = LoadPack<true, kPack>(terms.x[term] + i * kPack, kPack);
      for (int j = 0; j < kPack; ++j) sums[j] += static_cast<A>(pack.values[j]);
    }
    for (int j = 0; j < kPack; ++j) result.values[j] = static_cast<T>(sums[j]);
    StorePack<true>(result, y + i * kPack, kPack);
  }
}

// Casts of the mixed precision's types, and of images, take 16 bytes at a time; others are rare.
template <class From, class To>
constexpr bool kIsCommon = (std::is_same_v<To, float> || std::is_same_v<To, BFloat16>)&&(
    std::is_same_v<From, float> || std::is_same_v<From, BFloat16> || std::is_same_v<From, uint8_t>);

template <class T>
__global__ void FillKernel(int64_t n, T value, T* y) {
  SNUG_CUDA_FOR(i, n) { y[i] = value; }
}

template <int kPack, class To, class From>
__global__ void CastKernel(int64_t packs, const From* x, To* y) {
  SNUG_CUDA_FOR(i, packs) {
    const auto pack = LoadPack<true, kPack>(x + i * kPack, kPack);
    CudaPack<To, kPack> result;
    for (int j = 0; j < kPack; ++j) result.values[j] = Convert<To>(static_cast<Accumulator<From>>(pack.values[j]));
    StorePack<true>(result, y + i * kPack, kPack);
  }
}

template <class To, class From>
struct CastMember {
  int64_t n;
  const From* x;
  To* y;
};

// Several casts of small arrays.
template <int kPack, class All>
__global__ void CastTogetherKernel(const __grid_constant__ All all) {
  const int at = all.At(blockIdx.x);
  const auto [n, x, y] = all.members[at];
  const auto cast = [x = x, y = y](int64_t i, auto pack) {
    using To = std::remove_pointer_t<decltype(y)>;
    using A = Accumulator<std::remove_const_t<std::remove_pointer_t<decltype(x)>>>;
    const auto from = LoadPack<true, pack()>(x + i, pack());
    CudaPack<To, pack()> result;
    for (int j = 0; j < pack(); ++j) result.values[j] = Convert<To>(static_cast<A>(from.values[j]));
    StorePack<true>(result, y + i, pack());
  };
  const int64_t packs = AllAligned(x, y) ? n / kPack : 0;
  SNUG_TOGETHER_FOR(i, all, at, packs) { cast(i * kPack, std::integral_constant<int, kPack>()); }
  const int64_t done = packs * kPack;
  SNUG_TOGETHER_FOR(i, all, at, n - done) { cast(done + i, std::integral_constant<int, 1>()); }
}

template <class T, class Index>
__global__ void OneHotKernel(int64_t n, int64_t classes, CudaDivisor by_classes, const Index* indices, T* y) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const int64_t row = by_classes.Divide(i);
    const int64_t index = indices[row];
    const bool exists = index >= 0 && index < classes;
    y[i] = static_cast<T>(!exists ? std::numeric_limits<A>::quiet_NaN() : index == i - row * classes ? A(1) : A(0));
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
    bool aligned = true;
    for (int i = 0; i < terms.count; ++i) aligned = aligned && IsAligned(terms.x[i]);
    const auto run = [&](auto pack) {
      return k.cuda()->Launch(SumKernel<pack(), T>, ShapeFor(n / pack), n / pack, terms, k.output<T>(0));
    };
    return aligned ? WithPack<T>(n, run, k.output<T>(0)) : run(std::integral_constant<int, 1>());
  });
}

absl::Status FillCuda(const KernelContext& k, double value) {
  return DispatchAny(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.output_type(0).num_elements();
    return k.cuda()->Launch(FillKernel<T>, ShapeFor(n), n, static_cast<T>(value), k.output<T>(0));
  });
}

absl::Status CastCuda(absl::Span<const KernelContext> nodes) {
  return DispatchAny(nodes[0].input_type(0).dtype, [&](auto from) {
    return DispatchAny(nodes[0].output_type(0).dtype, [&](auto to) -> absl::Status {
      using From = decltype(from);
      using To = decltype(to);
      using Larger = std::conditional_t<(sizeof(From) > sizeof(To)), From, To>;
      if constexpr (kIsCommon<From, To>) {
        if (nodes.size() > 1) {
          const auto member = [](const KernelContext& k) {
            return CastMember<To, From>{k.output_type(0).num_elements(), k.input<From>(0), k.output<To>(0)};
          };
          return LaunchTogether(nodes, member, [&](const auto& all, const cuda::LaunchShape& shape) {
            using All = std::remove_cvref_t<decltype(all)>;
            return nodes[0].cuda()->Launch(CastTogetherKernel<kCudaPack<Larger>, All>, shape, all);
          });
        }
      }
      for (const KernelContext& k : nodes) {
        const int64_t n = k.output_type(0).num_elements();
        const auto run = [&](auto pack) {
          return k.cuda()->Launch(CastKernel<pack(), To, From>, ShapeFor(n / pack), n / pack, k.input<From>(0),
                                  k.output<To>(0));
        };
        if constexpr (kIsCommon<From, To>) {
          SNUG_RETURN_IF_ERROR(WithPack<Larger>(n, run, k.input<From>(0), k.output<To>(0)));
        } else {
          SNUG_RETURN_IF_ERROR(run(std::integral_constant<int, 1>()));
        }
      }
      return absl::OkStatus();
    });
  });
}

absl::Status OneHotCuda(const KernelContext& k, int64_t classes) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return DispatchInteger(k.input_type(0).dtype, [&](auto integer) {
      using T = decltype(zero);
      using Index = decltype(integer);
      const int64_t n = k.output_type(0).num_elements();
      return k.cuda()->Launch(OneHotKernel<T, Index>, ShapeFor(n), n, classes, CudaDivisor(classes, n),
                              k.input<Index>(0), k.output<T>(0));
    });
  });
}

}  // namespace snug::core
