#include <algorithm>

#include "ops/kit/cuda_kernel.h"
#include "ops/kit/cuda_rows.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/kit/vec_math.h"
#include "ops/nn/rows_cuda.h"

namespace snug::core {
namespace {

// y may be x.
template <class T, bool kLog, class Team>
__global__ void SoftmaxKernel(CudaRows rows, const T* x, T* y) {
  using A = Accumulator<T>;
  for (int64_t row = Team::FirstRow(); row < rows.count(); row += Team::RowStep()) {
    const auto at = [&](int64_t i) { return static_cast<A>(x[rows.At(row, i)]); };
    const A most = static_cast<A>(TeamReduce<Team, MaxOp, A>(rows.width, at));
    const double sum = TeamReduce<Team, SumOp, A>(rows.width, [&](int64_t i) { return Exp(at(i) - most); });
    const A log_sum = static_cast<A>(log(sum));
    const A scale = static_cast<A>(1 / sum);
    for (int64_t i = Team::First(); i < rows.width; i += Team::Step()) {
      const A v = at(i) - most;
      y[rows.At(row, i)] = static_cast<T>(kLog ? v - log_sum : Exp(v) * scale);
    }
  }
}

// For softmax, dx = y (dy - sum(y dy)); for log_softmax, dx = dy - exp(y) sum(dy). dx may be y or dy.
template <class T, bool kLog, class Team>
__global__ void SoftmaxGradKernel(CudaRows rows, const T* y, const T* dy, T* dx) {
  using A = Accumulator<T>;
  for (int64_t row = Team::FirstRow(); row < rows.count(); row += Team::RowStep()) {
    const A sum = static_cast<A>(TeamReduce<Team, SumOp, A>(rows.width, [&](int64_t i) {
      const A g = static_cast<A>(dy[rows.At(row, i)]);
      return kLog ? g : static_cast<A>(y[rows.At(row, i)]) * g;
    }));
    for (int64_t i = Team::First(); i < rows.width; i += Team::Step()) {
      const int64_t j = rows.At(row, i);
      const A v = static_cast<A>(y[j]);
      const A g = static_cast<A>(dy[j]);
      dx[j] = static_cast<T>(kLog ? g - Exp(v) * sum : v * (g - sum));
    }
  }
}

// weight and bias may be null. y may be x.
template <class T, class Team>
__global__ void LayerNormKernel(CudaRows rows, double epsilon, const T* x, const Float32Port<T>* weight,
                                const Float32Port<T>* bias, T* y, Float32Port<T>* means, Float32Port<T>* inv_stds) {
  using A = Accumulator<T>;
  const int64_t n = rows.width;
  for (int64_t row = Team::FirstRow(); row < rows.count(); row += Team::RowStep()) {
    const T* a = x + row * n;
    const double count = static_cast<double>(n);
    const A mean =
        static_cast<A>(TeamReduce<Team, SumOp, A>(n, [&](int64_t i) { return static_cast<A>(a[i]); }) / count);
    const double squares = TeamReduce<Team, SumOp, A>(n, [&](int64_t i) {
      const A d = static_cast<A>(a[i]) - mean;
      return d * d;
    });
    const A inv_std = static_cast<A>(1 / sqrt(squares / count + epsilon));
    if (Team::First() == 0) {
      means[row] = mean;
      inv_stds[row] = inv_std;
    }
    for (int64_t i = Team::First(); i < n; i += Team::Step()) {
      A v = (static_cast<A>(a[i]) - mean) * inv_std;
      if (weight != nullptr) v *= weight[i];
      if (bias != nullptr) v += bias[i];
      y[row * n + i] = static_cast<T>(v);
    }
  }
}

// Let g = dy weight and x' = (x - mean) inv_std. Then dx = inv_std (g - mean(g) - x' mean(g x')). dx may be x or dy.
template <class T, class Team>
__global__ void LayerNormGradKernel(CudaRows rows, const T* x, const Float32Port<T>* weight,
                                    const Float32Port<T>* means, const Float32Port<T>* inv_stds, const T* dy, T* dx) {
  using A = Accumulator<T>;
  const int64_t n = rows.width;
  for (int64_t row = Team::FirstRow(); row < rows.count(); row += Team::RowStep()) {
    const T* a = x + row * n;
    const T* d = dy + row * n;
    const A mean = means[row];
    const A inv_std = inv_stds[row];
    const A count = static_cast<A>(n);
    const auto g = [&](int64_t i) {
      return weight != nullptr ? static_cast<A>(d[i]) * weight[i] : static_cast<A>(d[i]);
    };
    const A mean_g = static_cast<A>(TeamReduce<Team, SumOp, A>(n, g)) / count;
    const A mean_gx =
        static_cast<A>(TeamReduce<Team, SumOp, A>(n, [&](int64_t i) { return g(i) * (static_cast<A>(a[i]) - mean); })) *
        inv_std / count;
    for (int64_t i = Team::First(); i < n; i += Team::Step()) {
      const A normalized = (static_cast<A>(a[i]) - mean) * inv_std;
      dx[row * n + i] = static_cast<T>(inv_std * (g(i) - mean_g - normalized * mean_gx));
    }
  }
}

// The sums over rows for dweight and dbias are computed in parts: [parts, 2, width].
int64_t ColumnParts(int64_t rows, int64_t width) {
  return std::clamp<int64_t>(std::min(rows / 32, (1 << 16) / std::max<int64_t>(width, 1)), 1, 256);
}

template <class T>
__global__ void LayerNormColumnsKernel(int64_t rows, int64_t width, const T* x, const Float32Port<T>* means,
                                       const Float32Port<T>* inv_stds, const T* dy, double* sums) {
  using A = Accumulator<T>;
  const int64_t part = blockIdx.y;
  const int64_t begin = rows * part / gridDim.y;
  const int64_t end = rows * (part + 1) / gridDim.y;
  SNUG_CUDA_FOR(i, width) {
    sums[part * 2 * width + i] = ReduceInSteps<SumOp, A>(begin, end, 1, [&](int64_t row) {
      const int64_t j = row * width + i;
      return static_cast<A>(dy[j]) * ((static_cast<A>(x[j]) - static_cast<A>(means[row])) * inv_stds[row]);
    });
    sums[part * 2 * width + width + i] =
        ReduceInSteps<SumOp, A>(begin, end, 1, [&](int64_t row) { return static_cast<A>(dy[row * width + i]); });
  }
}

template <class S>
__global__ void LayerNormSumsKernel(int64_t parts, int64_t width, const double* sums, S* dweight, S* dbias) {
  SNUG_CUDA_FOR(i, width) {
    double weight = 0;
    double bias = 0;
    for (int64_t part = 0; part < parts; ++part) {
      weight += sums[part * 2 * width + i];
      bias += sums[part * 2 * width + width + i];
    }
    dweight[i] = static_cast<S>(weight);
    dbias[i] = static_cast<S>(bias);
  }
}

template <class T, bool kLog>
absl::Status Softmax(const KernelContext& k, const CudaRows& rows) {
  return LaunchRows(k, rows, SoftmaxKernel<T, kLog, ThreadTeam>, SoftmaxKernel<T, kLog, BlockTeam>, rows, k.input<T>(0),
                    k.output<T>(0));
}

template <class T, bool kLog>
absl::Status SoftmaxGrad(const KernelContext& k, const CudaRows& rows) {
  return LaunchRows(k, rows, SoftmaxGradKernel<T, kLog, ThreadTeam>, SoftmaxGradKernel<T, kLog, BlockTeam>, rows,
                    k.input<T>(0), k.input<T>(1), k.output<T>(0));
}

}  // namespace

absl::Status SoftmaxCuda(const KernelContext& k, bool log, int64_t outer, int64_t axis, int64_t inner) {
  const CudaRows rows = {outer, axis, inner};
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return log ? Softmax<T, true>(k, rows) : Softmax<T, false>(k, rows);
  });
}

absl::Status SoftmaxGradCuda(const KernelContext& k, bool log, int64_t outer, int64_t axis, int64_t inner) {
  const CudaRows rows = {outer, axis, inner};
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return log ? SoftmaxGrad<T, true>(k, rows) : SoftmaxGrad<T, false>(k, rows);
  });
}

absl::Status LayerNormCuda(const KernelContext& k, int64_t rows, int64_t width, double epsilon) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const CudaRows view = {.outer = rows, .width = width};
    return LaunchRows(k, view, LayerNormKernel<T, ThreadTeam>, LayerNormKernel<T, BlockTeam>, view, epsilon,
                      k.input<T>(0), k.has_input(1) ? k.input<S>(1) : nullptr, k.has_input(2) ? k.input<S>(2) : nullptr,
                      k.output<T>(0), k.output<S>(1), k.output<S>(2));
  });
}

int64_t LayerNormGradCudaWorkspace(int64_t rows, int64_t width) {
  return ColumnParts(rows, width) * 2 * width * static_cast<int64_t>(sizeof(double));
}

absl::Status LayerNormGradCuda(const KernelContext& k, int64_t rows, int64_t width) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const T* x = k.input<T>(0);
    const T* dy = k.input<T>(4);
    const S* means = k.input<S>(2);
    const S* inv_stds = k.input<S>(3);
    auto* sums = k.workspace<double>();
    const int64_t parts = ColumnParts(rows, width);
    cuda::LaunchShape columns = ShapeFor(width);
    columns.blocks_y = parts;
    SNUG_RETURN_IF_ERROR(
        k.cuda()->Launch(LayerNormColumnsKernel<T>, columns, rows, width, x, means, inv_stds, dy, sums));
    SNUG_RETURN_IF_ERROR(
        k.cuda()->Launch(LayerNormSumsKernel<S>, ShapeFor(width), parts, width, sums, k.output<S>(1), k.output<S>(2)));
    const CudaRows view = {.outer = rows, .width = width};
    return LaunchRows(k, view, LayerNormGradKernel<T, ThreadTeam>, LayerNormGradKernel<T, BlockTeam>, view, x,
                      k.has_input(1) ? k.input<S>(1) : nullptr, means, inv_stds, dy, k.output<T>(0));
  });
}

}  // namespace snug::core
