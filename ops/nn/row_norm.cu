// Layer norm and the norm without means, and their gradients, by CUDA kernels.
#include "ops/kit/cuda_columns.h"
#include "ops/kit/cuda_kernel.h"
#include "ops/kit/cuda_rows.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/nn/rows_cuda.h"

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

// Let g = dy weight and x' = (x - mean) inv_std. Then dx = inv_std (g - mean(g) - x' mean(g x')). Where `means` is
// null, mean and mean(g) are 0. dx may be x or dy.
template <class T, class Deal>
__global__ void RowNormGradKernel(int64_t rows, int64_t width, const T* x, const Float32Port<T>* weight,
                                  const Float32Port<T>* means, const Float32Port<T>* inv_stds, const T* dy, T* dx) {
  using A = Accumulator<T>;
  for (int64_t r = Deal::Team::FirstRow(); r < rows; r += Deal::Team::RowStep()) {
    const DealtRow<T, Deal> values(x + r * width, width);
    const DealtRow<T, Deal> grads(dy + r * width, width);
    const A mean = means != nullptr ? means[r] : A(0);
    const A inv_std = inv_stds[r];
    std::conditional_t<(Deal::kHeld > 0), A, double> own_g = 0;
    std::conditional_t<(Deal::kHeld > 0), A, double> own_gx = 0;
    Deal::Each(width, [&](int n, auto i) {
      const auto v = values.At(n, i);
      const auto d = grads.At(n, i);
      const auto scale = ParametersAt<Deal::kPack, A>(weight, i, A(1));
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
    if (means != nullptr) {
      mean_g = static_cast<A>(Deal::Team::template Combine<SumOp>(static_cast<double>(own_g))) / count;
    }
    const A mean_gx =
        static_cast<A>(Deal::Team::template Combine<SumOp>(static_cast<double>(own_gx))) * inv_std / count;
    Deal::Each(width, [&](int n, auto i) {
      const auto v = values.At(n, i);
      auto g = grads.At(n, i);
      const auto scale = ParametersAt<Deal::kPack, A>(weight, i, A(1));
      for (int j = 0; j < Deal::kPack; ++j) {
        const A normalized = (static_cast<A>(v.values[j]) - mean) * inv_std;
        const A own = static_cast<A>(g.values[j]) * scale.values[j];
        g.values[j] = static_cast<T>(inv_std * (own - mean_g - normalized * mean_gx));
      }
      StorePack<true>(g, dx + r * width + i, Deal::kPack);
    });
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
  __device__ Columns<kPack> ColumnsOfBlock(int64_t, int64_t, int) const {
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

// Sets dx and what `columns` sums.
template <class T>
absl::Status RowNormGrad(const KernelContext& k, int64_t rows, int64_t width, const RowNormColumns<T>& columns) {
  const Float32Port<T>* weight = PortOrNull<T>(k, 1);
  T* dx = k.output<T>(0);
  const bool aligned = AllAligned(columns.x, weight, columns.dy, dx);
  SNUG_RETURN_IF_ERROR(
      SumColumns<4>(k, ColumnTiles(rows, width), columns, aligned && width % kCudaPack<T> == 0, k.workspace<double>()));
  return DealRows<T, true>(rows, width, aligned, [&]<class Deal>(Deal, int64_t blocks) {
    return k.cuda()->Launch(RowNormGradKernel<T, Deal>, {.blocks = blocks, .threads = kCudaThreads}, rows, width,
                            columns.x, weight, columns.means, columns.inv_stds, columns.dy, dx);
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

int64_t LayerNormGradCudaWorkspace(int64_t rows, int64_t width) { return ColumnTiles(rows, width).WorkspaceBytes(2); }

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

int64_t RmsNormGradCudaWorkspace(int64_t rows, int64_t width) { return LayerNormGradCudaWorkspace(rows, width); }

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
