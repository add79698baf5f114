// Layer norm and the norm without means, and their gradients, by CUDA kernels.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "ops/cuda_numbers.h"
#include "ops/kit/cuda/columns.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/rows.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/nn/rows_cuda.h"
#include "ops/norm_grad_parts.h"

namespace snug::core {
namespace {

// Reads a pack of parameters, which are float where T is bfloat16; `otherwise` where there are none.
template <int kPack, class S>
__device__ CudaPack<S, kPack> ParametersAt(const S* from, int64_t i, S otherwise) {
  constexpr int kOnce = kPack < kCudaPack<S> ? kPack : kCudaPack<S>;
  CudaPack<S, kPack> all;
  for (int first = 0; first < kPack; first += kOnce) {
    CudaPack<S, kOnce> some;
    if (from != nullptr) some = LoadPack<true, kOnce>(from + i + first, kOnce);
    for (int j = 0; j < kOnce; ++j) all.values[first + j] = from != nullptr ? some.values[j] : otherwise;
  }
  return all;
}

// Layer norm, and, where `means` is null, the norm without means: they are taken to be 0. weight and bias may be null.
// y may be x.
template <class T, class Deal>
__global__ void RowNormKernel(int64_t rows, int64_t width, double epsilon, const T* x, const Float32Port<T>* weight,
                              const Float32Port<T>* bias, T* y, Float32Port<T>* means, Float32Port<T>* inv_stds) {
  using A = Accumulator<T>;
  const double count = static_cast<double>(width);
  for (int64_t r = Deal::Team::FirstRow(); r < rows; r += Deal::Team::RowStep()) {
    const DealtRow<T, Deal> row(x + r * width, width);
    A mean = 0;
    if (means != nullptr) {
      const double sum =
          Deal::template Sum<A>(width, [&](int n, auto i) { return SumOfPack(row.At(n, i), [](A v) { return v; }); });
      mean = static_cast<A>(sum / count);
    }
    const double squares = Deal::template Sum<A>(
        width, [&](int n, auto i) { return SumOfPack(row.At(n, i), [&](A v) { return (v - mean) * (v - mean); }); });
    const A inv_std = static_cast<A>(1 / sqrt(squares / count + epsilon));
    if (Deal::Team::First() == 0) {
      if (means != nullptr) means[r] = mean;
      inv_stds[r] = inv_std;
    }
    Deal::Each(width, [&](int n, auto i) {
      auto pack = row.At(n, i);
      const auto scale = ParametersAt<Deal::kPack, A>(weight, i, A(1));
      const auto shift = ParametersAt<Deal::kPack, A>(bias, i, A(0));
      for (int j = 0; j < Deal::kPack; ++j) {
        const A v = (static_cast<A>(pack.values[j]) - mean) * inv_std;
        pack.values[j] = static_cast<T>(v * scale.values[j] + shift.values[j]);
      }
      StorePack<true>(pack, y + r * width + i, Deal::kPack);
    });
  }
}

// A row of a Deal whose packs are held as they are in memory. Each use converts the numbers anew; a compiler that knows
// that they are the same holds those of bfloat16 as floats, in twice the registers.
template <class T, class Deal>
struct PackedRow {
  using Pack = CudaPack<T, Deal::kPack>;
  using Words = CudaPack<uint32_t, sizeof(Pack) / sizeof(uint32_t)>;

  Words held[Deal::kHeld];

  __device__ PackedRow(const T* from, int64_t width) {
    Deal::Each(width, [&](int n, int i) { held[n] = LoadWhole<Words>(from + i); });
  }
  __device__ Pack At(int n, int64_t) const {
    Words words = held[n];
#if defined(__CUDA_ARCH__)
    for (uint32_t& word : words.values) asm volatile("" : "+r"(word));
#endif
    return std::bit_cast<Pack>(words);
  }
};
template <class T, class Deal>
using GradRow =
    std::conditional_t<(Deal::kHeld > 0 && Deal::kPack == kCudaPack<T>), PackedRow<T, Deal>, DealtRow<T, Deal>>;

// What the gradient of a norm is made of. `means` is null for the norm without means, and weight may be null.
template <class T>
struct RowNormBackward {
  const T* x;
  const Float32Port<T>* weight;
  const Float32Port<T>* means;
  const Float32Port<T>* inv_stds;
  const T* dy;
  T* dx;
};

// Sets dx of a row, which a team does. Let g = dy weight and x' = (x - mean) inv_std. Then
// dx = inv_std (g - mean(g) - x' mean(g x')). Without means, mean and mean(g) are 0. dx may be x or dy. weight_of(n, i)
// gives the weights of a pack, and also(n, j, dy, x') is called with each number: the j-th of the thread's n-th pack.
template <class T, class Deal, class WeightOf, class Also>
__device__ inline void RowNormGrad(int64_t r, int64_t width, const RowNormBackward<T>& call, const WeightOf& weight_of,
                                   const Also& also) {
  using A = Accumulator<T>;
  const GradRow<T, Deal> values(call.x + r * width, width);
  const GradRow<T, Deal> grads(call.dy + r * width, width);
  const A mean = call.means != nullptr ? call.means[r] : A(0);
  const A inv_std = call.inv_stds[r];
  std::conditional_t<(Deal::kHeld > 0), A, double> own_g = 0;
  std::conditional_t<(Deal::kHeld > 0), A, double> own_gx = 0;
  Deal::Each(width, [&](int n, auto i) {
    const auto v = values.At(n, i);
    const auto d = grads.At(n, i);
    const auto scale = weight_of(n, i);
    A of_g = 0;
    A of_gx = 0;
    for (int j = 0; j < Deal::kPack; ++j) {
      const A g = static_cast<A>(d.values[j]) * scale.values[j];
      of_g += g;
      of_gx += g * (static_cast<A>(v.values[j]) - mean);
    }
    own_g += of_g;
    own_gx += of_gx;
  });
  const A count = static_cast<A>(width);
  A mean_g = 0;
  if (call.means != nullptr) {
    mean_g = static_cast<A>(Deal::Team::template Combine<SumOp>(static_cast<double>(own_g))) / count;
  }
  const A mean_gx = static_cast<A>(Deal::Team::template Combine<SumOp>(static_cast<double>(own_gx))) * inv_std / count;
  Deal::Each(width, [&](int n, auto i) {
    const auto v = values.At(n, i);
    const auto g = grads.At(n, i);
    const auto scale = weight_of(n, i);
    A dx[Deal::kPack];
    for (int j = 0; j < Deal::kPack; ++j) {
      const A normalized = (static_cast<A>(v.values[j]) - mean) * inv_std;
      const A d = static_cast<A>(g.values[j]);
      also(n, j, d, normalized);
      dx[j] = inv_std * (d * scale.values[j] - mean_g - normalized * mean_gx);
    }
    StorePack<true>(RoundPack<T>(dx), call.dx + r * width + i, Deal::kPack);
  });
}

template <class T, class Deal>
__global__ void RowNormGradKernel(int64_t rows, int64_t width, RowNormBackward<T> call) {
  using A = Accumulator<T>;
  for (int64_t r = Deal::Team::FirstRow(); r < rows; r += Deal::Team::RowStep()) {
    RowNormGrad<T, Deal>(
        r, width, call, [&](int, auto i) { return ParametersAt<Deal::kPack, A>(call.weight, i, A(1)); },
        [](int, int, A, A) {});
  }
}

// Does the rows of a part, whose warps hold a row each, and leaves the part's sums of dy x' and dy in `sums`,
// [parts, 2, width]. A thread adds up what its columns have in at most 64 rows.
template <class T, class Deal>
__global__ void __launch_bounds__(kCudaThreads, 2)
    RowNormGradOnceKernel(NormGradParts parts, int64_t width, RowNormBackward<T> call, double* sums) {
  using A = Accumulator<T>;
  constexpr int kPack = Deal::kPack;
  constexpr int kHeld = Deal::kHeld;
  constexpr int kWarps = NormGradParts::kWarps;
  constexpr bool kHoldsWeights = kHeld * kPack <= 24;  // there are registers for them
  // Numbers in the same place of lanes' packs lie side by side, with gaps so that a warp that goes along columns meets
  // no bank twice.
  constexpr int kLine = 32 + 32 / kPack;
  __shared__ A of_warps[kWarps][kHeld * kPack * kLine];

  CudaPack<A, kPack> weights[kHoldsWeights ? kHeld : 1];
  if constexpr (kHoldsWeights) {
    Deal::Each(width, [&](int n, auto i) { weights[n] = ParametersAt<kPack, A>(call.weight, i, A(1)); });
  }
  const auto weight_of = [&](int n, auto i) {
    if constexpr (kHoldsWeights) {
      return weights[n];
    } else {
      return ParametersAt<kPack, A>(call.weight, i, A(1));
    }
  };
  A own[2][kHeld][kPack] = {};
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * parts.rows_in_part;
  const int64_t end = begin + parts.rows_in_part < parts.rows ? begin + parts.rows_in_part : parts.rows;
#pragma unroll 1
  for (int64_t r = begin + warp; r < end; r += kWarps) {
    RowNormGrad<T, Deal>(r, width, call, weight_of, [&](int n, int j, A d, A normalized) {
      own[0][n][j] += d * normalized;
      own[1][n][j] += d;
    });
  }
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    Deal::Each(width, [&](int n, int) {
      for (int j = 0; j < kPack; ++j) of_warps[warp][(n * kPack + j) * kLine + Deal::Team::First()] = own[s][n][j];
    });
    __syncthreads();
    for (int column = static_cast<int>(threadIdx.x); column < width; column += kCudaThreads) {
      const int pack = column / kPack;
      const int place = (pack / 32 * kPack + column % kPack) * kLine + pack % 32;
      double total = 0;
      for (int w = 0; w < kWarps; ++w) total += static_cast<double>(of_warps[w][place]);
      sums[(static_cast<int64_t>(blockIdx.x) * 2 + s) * width + column] = total;
    }
    __syncthreads();  // so that the next sum may be written
  }
}

// Sums over rows for dweight, and for dbias, which is null where `means` is.
template <class Type>
struct RowNormColumns {
  using T = Type;
  using A = Accumulator<T>;
  static constexpr int kSums = 2;
  const T* x;
  const T* dy;
  const Float32Port<T>* means;
  const Float32Port<T>* inv_stds;
  Float32Port<T>* dweight;
  Float32Port<T>* dbias;

  template <int kPack>
  struct Columns {};
  template <int kPack>
  struct Row {
    CudaPack<T, kPack> x, dy;
    A mean, inv_std;
  };
  template <int kPack>
  __device__ Columns<kPack> ColumnsOfBlock(const ColumnPlace<kPack>&) const {
    return {};
  }
  template <bool kWhole, int kPack>
  __device__ Row<kPack> Load(int64_t row, int64_t at, int count) const {
    return {LoadPack<kWhole, kPack>(x + at, count), LoadPack<kWhole, kPack>(dy + at, count),
            means != nullptr ? means[row] : A(0), inv_stds[row]};
  }
  template <bool kWhole, int kPack, class Sums>
  __device__ void Use(const Columns<kPack>&, const Row<kPack>& row, int64_t, int, Sums& sums) const {
    for (int j = 0; j < kPack; ++j) {
      const A g = static_cast<A>(row.dy.values[j]);
      sums[0][j] += g * ((static_cast<A>(row.x.values[j]) - row.mean) * row.inv_std);
      sums[1][j] += g;
    }
  }
  __device__ void Take(int64_t column, const double (&totals)[2]) const {
    dweight[column] = static_cast<Float32Port<T>>(totals[0]);
    if (dbias != nullptr) dbias[column] = static_cast<Float32Port<T>>(totals[1]);
  }
};

template <class T>
const Float32Port<T>* PortOrNull(const KernelContext& k, int i) {
  return k.has_input(i) ? k.input<Float32Port<T>>(i) : nullptr;
}

template <class T>
absl::Status RowNorm(const KernelContext& k, int64_t rows, int64_t width, double epsilon, const Float32Port<T>* bias,
                     Float32Port<T>* means, Float32Port<T>* inv_stds) {
  const T* x = k.input<T>(0);
  const Float32Port<T>* weight = PortOrNull<T>(k, 1);
  T* y = k.output<T>(0);
  return DealRows<T, true>(rows, width, AllAligned(x, weight, bias, y), [&]<class Deal>(Deal, int64_t blocks) {
    return k.cuda()->Launch(RowNormKernel<T, Deal>, {.blocks = blocks, .threads = kCudaThreads}, rows, width, epsilon,
                            x, weight, bias, y, means, inv_stds);
  });
}

// Calls launch(deal) with the RowDeal for rows that a warp holds.
template <class T, class Launch>
absl::Status DealHeldRows(int64_t width, const Launch& launch) {
  if constexpr (!std::is_same_v<T, double>) {
    constexpr int kPack = kCudaPack<T>;
    if (width % kPack == 0) {
      if (width <= 32 * kPack) return launch(RowDeal<WarpTeam, kPack, 1>());
      if (width <= 64 * kPack) return launch(RowDeal<WarpTeam, kPack, 2>());
      if (width <= 96 * kPack) return launch(RowDeal<WarpTeam, kPack, 3>());
      return launch(RowDeal<WarpTeam, kPack, 4>());
    }
  }
  return launch(RowDeal<WarpTeam, 1, 4>());
}

// Sets dx and what `columns` sums.
template <class T>
absl::Status RowNormGrad(const KernelContext& k, int64_t rows, int64_t width, const RowNormColumns<T>& columns) {
  const RowNormBackward<T> call = {.x = columns.x,
                                   .weight = PortOrNull<T>(k, 1),
                                   .means = columns.means,
                                   .inv_stds = columns.inv_stds,
                                   .dy = columns.dy,
                                   .dx = k.output<T>(0)};
  const bool aligned = AllAligned(call.x, call.weight, call.dy, call.dx);
  auto* sums = k.workspace<double>();
  const DType dtype = k.input_type(0).dtype;
  if (WarpHoldsRow(width, dtype) && (aligned || NumbersInPack(width, dtype) == 1)) {
    const NormGradParts parts(rows);
    SNUG_RETURN_IF_ERROR(DealHeldRows<T>(width, [&]<class Deal>(Deal) {
      return k.cuda()->Launch(RowNormGradOnceKernel<T, Deal>, {.blocks = parts.parts, .threads = kCudaThreads}, parts,
                              width, call, sums);
    }));
    return TakeColumnSums(k, width, parts.parts, columns, sums);
  }
  SNUG_RETURN_IF_ERROR(SumColumns<4>(k, ColumnTiles(rows, width), columns, aligned && width % kCudaPack<T> == 0, sums));
  return DealRows<T, true>(rows, width, aligned, [&]<class Deal>(Deal, int64_t blocks) {
    return k.cuda()->Launch(RowNormGradKernel<T, Deal>, {.blocks = blocks, .threads = kCudaThreads}, rows, width, call);
  });
}

}  // namespace

absl::Status LayerNormCuda(const KernelContext& k, int64_t rows, int64_t width, double epsilon) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    return RowNorm<T>(k, rows, width, epsilon, PortOrNull<T>(k, 2), k.output<S>(1), k.output<S>(2));
  });
}

int64_t LayerNormGradCudaWorkspace(int64_t rows, int64_t width, DType dtype) {
  const int64_t apart = ColumnTiles(rows, width).WorkspaceBytes(2);  // of arrays that begin anywhere, too
  return WarpHoldsRow(width, dtype) ? std::max(apart, NormGradParts(rows).WorkspaceBytes(width)) : apart;
}

absl::Status LayerNormGradCuda(const KernelContext& k, int64_t rows, int64_t width) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    return RowNormGrad<T>(k, rows, width,
                          {.x = k.input<T>(0),
                           .dy = k.input<T>(4),
                           .means = k.input<S>(2),
                           .inv_stds = k.input<S>(3),
                           .dweight = k.output<S>(1),
                           .dbias = k.output<S>(2)});
  });
}

absl::Status RmsNormCuda(const KernelContext& k, int64_t rows, int64_t width, double epsilon) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return RowNorm<T>(k, rows, width, epsilon, /*bias=*/nullptr, /*means=*/nullptr, k.output<Float32Port<T>>(1));
  });
}

int64_t RmsNormGradCudaWorkspace(int64_t rows, int64_t width, DType dtype) {
  return LayerNormGradCudaWorkspace(rows, width, dtype);
}

absl::Status RmsNormGradCuda(const KernelContext& k, int64_t rows, int64_t width) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    return RowNormGrad<T>(k, rows, width,
                          {.x = k.input<T>(0),
                           .dy = k.input<T>(3),
                           .means = nullptr,
                           .inv_stds = k.input<S>(2),
                           .dweight = k.output<S>(1),
                           .dbias = nullptr});
  });
}

}  // namespace snug::core
