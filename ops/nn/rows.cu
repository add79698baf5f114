#include <algorithm>

#include "ops/kernels/batch_norm/cuda_channels.h"
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

// The rows of layer_norm and rms_norm lie together, and each number has a weight of its own.
struct WholeRows {
  int64_t rows_width;

  SNUG_HOST_DEVICE int64_t width() const { return rows_width; }
  SNUG_HOST_DEVICE int64_t At(int64_t row, int64_t i) const { return row * rows_width + i; }
  SNUG_HOST_DEVICE int64_t Channel(int64_t, int64_t i) const { return i; }
};

// If not kCentred, the mean is taken to be 0, and `means` is null. weight and bias may be null. y may be x.
template <class T, bool kCentred, class Rows, class Team>
__global__ void NormKernel(Rows rows, int64_t count, double epsilon, const T* x, const Float32Port<T>* weight,
                           const Float32Port<T>* bias, T* y, Float32Port<T>* means, Float32Port<T>* inv_stds) {
  using A = Accumulator<T>;
  const int64_t n = rows.width();
  const double numbers = static_cast<double>(n);
  for (int64_t row = Team::FirstRow(); row < count; row += Team::RowStep()) {
    const auto at = [&](int64_t i) { return static_cast<A>(x[rows.At(row, i)]); };
    A mean = 0;
    if constexpr (kCentred) mean = static_cast<A>(TeamReduce<Team, SumOp, A>(n, at) / numbers);
    const double squares = TeamReduce<Team, SumOp, A>(n, [&](int64_t i) {
      const A d = at(i) - mean;
      return d * d;
    });
    const A inv_std = static_cast<A>(1 / sqrt(squares / numbers + epsilon));
    if (Team::First() == 0) {
      if constexpr (kCentred) means[row] = mean;
      inv_stds[row] = inv_std;
    }
    for (int64_t i = Team::First(); i < n; i += Team::Step()) {
      A v = (at(i) - mean) * inv_std;
      const int64_t channel = rows.Channel(row, i);
      if (weight != nullptr) v *= weight[channel];
      if (bias != nullptr) v += bias[channel];
      y[rows.At(row, i)] = static_cast<T>(v);
    }
  }
}

// Let g = dy weight and x' = (x - mean) inv_std. Then dx = inv_std (g - mean(g) - x' mean(g x')). If not kCentred, mean
// and mean(g) are 0. dx may be x or dy.
template <class T, bool kCentred, class Rows, class Team>
__global__ void NormGradKernel(Rows rows, int64_t count, const T* x, const Float32Port<T>* weight,
                               const Float32Port<T>* means, const Float32Port<T>* inv_stds, const T* dy, T* dx) {
  using A = Accumulator<T>;
  const int64_t n = rows.width();
  const A numbers = static_cast<A>(n);
  for (int64_t row = Team::FirstRow(); row < count; row += Team::RowStep()) {
    const A inv_std = inv_stds[row];
    A mean = 0;
    if constexpr (kCentred) mean = means[row];
    const auto centred = [&](int64_t i) { return static_cast<A>(x[rows.At(row, i)]) - mean; };
    const auto g = [&](int64_t i) {
      const A d = static_cast<A>(dy[rows.At(row, i)]);
      return weight != nullptr ? d * weight[rows.Channel(row, i)] : d;
    };
    A mean_g = 0;
    if constexpr (kCentred) mean_g = static_cast<A>(TeamReduce<Team, SumOp, A>(n, g)) / numbers;
    const A mean_gx =
        static_cast<A>(TeamReduce<Team, SumOp, A>(n, [&](int64_t i) { return g(i) * centred(i); })) * inv_std / numbers;
    for (int64_t i = Team::First(); i < n; i += Team::Step()) {
      const A v = inv_std * (g(i) - mean_g - centred(i) * inv_std * mean_gx);
      dx[rows.At(row, i)] = static_cast<T>(v);
    }
  }
}

// The sums over rows for dweight and dbias are computed in parts: [parts, 2, width].
int64_t ColumnParts(int64_t rows, int64_t width) {
  return std::clamp<int64_t>(std::min(rows / 32, (1 << 16) / std::max<int64_t>(width, 1)), 1, 256);
}

// Leaves the parts' sums for dweight in [parts][0], and those for dbias, if kCentred, in [parts][1].
template <class T, bool kCentred>
__global__ void ColumnsKernel(int64_t rows, int64_t width, const T* x, const Float32Port<T>* means,
                              const Float32Port<T>* inv_stds, const T* dy, double* sums) {
  using A = Accumulator<T>;
  const int64_t part = blockIdx.y;
  const int64_t begin = rows * part / gridDim.y;
  const int64_t end = rows * (part + 1) / gridDim.y;
  SNUG_CUDA_FOR(i, width) {
    sums[part * 2 * width + i] = ReduceInSteps<SumOp, A>(begin, end, 1, [&](int64_t row) {
      const int64_t j = row * width + i;
      A centred = static_cast<A>(x[j]);
      if constexpr (kCentred) centred -= static_cast<A>(means[row]);
      return static_cast<A>(dy[j]) * (centred * inv_stds[row]);
    });
    if constexpr (kCentred) {
      sums[part * 2 * width + width + i] =
          ReduceInSteps<SumOp, A>(begin, end, 1, [&](int64_t row) { return static_cast<A>(dy[row * width + i]); });
    }
  }
}

// dbias may be null.
template <class S>
__global__ void ColumnSumsKernel(int64_t parts, int64_t width, const double* sums, S* dweight, S* dbias) {
  SNUG_CUDA_FOR(i, width) {
    double weight = 0;
    double bias = 0;
    for (int64_t part = 0; part < parts; ++part) {
      weight += sums[part * 2 * width + i];
      if (dbias != nullptr) bias += sums[part * 2 * width + width + i];
    }
    dweight[i] = static_cast<S>(weight);
    if (dbias != nullptr) dbias[i] = static_cast<S>(bias);
  }
}

// What group_norm's dweight and dbias are summed of.
template <class T>
struct GroupGradients {
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  GroupRows rows;
  const T *x, *dy;
  const S *means, *inv_stds;
  S *dweight, *dbias;

  __device__ ChannelTerms<A> of(int64_t i, int64_t channel) const {
    const int64_t sample = i / (rows.groups * rows.width());
    const int64_t row = sample * rows.groups + channel / rows.per_group;
    const A g = static_cast<A>(dy[i]);
    return {g * ((static_cast<A>(x[i]) - static_cast<A>(means[row])) * inv_stds[row]), g};
  }
  __device__ void Take(const ChannelView&, int64_t channel, const ChannelSums& total) const {
    dweight[channel] = static_cast<S>(total.first);
    dbias[channel] = static_cast<S>(total.second);
  }
};

// Sums load(j) over the channels j of the window around element i. Mirrored, it is the window of those whose windows
// have i.
template <class A, class Load>
__device__ A SumWindow(const ChannelWindow& window, int64_t i, bool mirrored, const Load& load) {
  const int64_t channel = i / window.inner % window.channels;
  const int64_t before = mirrored ? window.after : window.before;
  const int64_t after = mirrored ? window.before : window.after;
  const int64_t first = channel < before ? -channel : -before;
  const int64_t last = channel + after < window.channels ? after : window.channels - 1 - channel;
  A sum = 0;
  for (int64_t j = first; j <= last; ++j) sum += load(i + j * window.inner);
  return sum;
}

// Returns what local_response_norm takes the power of.
template <class A, class T>
__device__ A ResponseAround(const ChannelWindow& window, int64_t i, const T* x) {
  const A squares = SumWindow<A>(window, i, /*mirrored=*/false, [&](int64_t j) {
    const A v = static_cast<A>(x[j]);
    return v * v;
  });
  return static_cast<A>(window.k) + static_cast<A>(window.alpha) * squares;
}

template <class T>
__global__ void ResponseKernel(int64_t n, ChannelWindow window, const T* x, T* y) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const A power = Pow(ResponseAround<A>(window, i, x), static_cast<A>(-window.beta));
    y[i] = static_cast<T>(static_cast<A>(x[i]) * power);
  }
}

// Computes for each element what it passes on to the others in its window: dy x response^(-beta - 1).
template <class T>
__global__ void ResponsePassedKernel(int64_t n, ChannelWindow window, const T* x, const T* dy, Accumulator<T>* passed) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const A response = ResponseAround<A>(window, i, x);
    const A power = Pow(response, static_cast<A>(-window.beta));
    passed[i] = static_cast<A>(dy[i]) * static_cast<A>(x[i]) * power / response;
  }
}

// dx may be dy.
template <class T>
__global__ void ResponseGradKernel(int64_t n, ChannelWindow window, const T* x, const T* dy,
                                   const Accumulator<T>* passed, T* dx) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const A power = Pow(ResponseAround<A>(window, i, x), static_cast<A>(-window.beta));
    const A sum = SumWindow<A>(window, i, /*mirrored=*/true, [&](int64_t j) { return passed[j]; });
    const A factor = static_cast<A>(2 * window.alpha * window.beta);
    dx[i] = static_cast<T>(static_cast<A>(dy[i]) * power - factor * static_cast<A>(x[i]) * sum);
  }
}

// Launches a kernel over rows of `width` numbers, in a block for each row where they are long.
template <class... P>
absl::Status LaunchNorm(const KernelContext& k, int64_t rows, int64_t width, void (*by_thread)(P...),
                        void (*by_block)(P...), std::type_identity_t<P>... arguments) {
  return LaunchRows(k, {.outer = rows, .width = width}, by_thread, by_block, arguments...);
}

template <class T>
struct RowNormGrad {
  const T* x;
  const Float32Port<T>* means = nullptr;
  const Float32Port<T>* inv_stds;
  const T* dy;
};

// Sets output 1, dweight, and dbias if kCentred.
template <class T, bool kCentred>
absl::Status SumColumns(const KernelContext& k, int64_t rows, int64_t width, const RowNormGrad<T>& call,
                        Float32Port<T>* dbias) {
  using S = Float32Port<T>;
  auto* sums = k.workspace<double>();
  const int64_t parts = ColumnParts(rows, width);
  cuda::LaunchShape columns = ShapeFor(width);
  columns.blocks_y = parts;
  SNUG_RETURN_IF_ERROR(k.cuda()->Launch(ColumnsKernel<T, kCentred>, columns, rows, width, call.x, call.means,
                                        call.inv_stds, call.dy, sums));
  return k.cuda()->Launch(ColumnSumsKernel<S>, ShapeFor(width), parts, width, sums, k.output<S>(1), dbias);
}

template <class T>
const Float32Port<T>* PortOrNull(const KernelContext& k, int i) {
  return k.has_input(i) ? k.input<Float32Port<T>>(i) : nullptr;
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
    return LaunchNorm(k, rows, width, NormKernel<T, true, WholeRows, ThreadTeam>,
                      NormKernel<T, true, WholeRows, BlockTeam>, WholeRows{width}, rows, epsilon, k.input<T>(0),
                      PortOrNull<T>(k, 1), PortOrNull<T>(k, 2), k.output<T>(0), k.output<S>(1), k.output<S>(2));
  });
}

int64_t LayerNormGradCudaWorkspace(int64_t rows, int64_t width) {
  return ColumnParts(rows, width) * 2 * width * static_cast<int64_t>(sizeof(double));
}

absl::Status LayerNormGradCuda(const KernelContext& k, int64_t rows, int64_t width) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const RowNormGrad<T> call = {.x = k.input<T>(0),
                                 .means = k.input<Float32Port<T>>(2),
                                 .inv_stds = k.input<Float32Port<T>>(3),
                                 .dy = k.input<T>(4)};
    SNUG_RETURN_IF_ERROR((SumColumns<T, true>(k, rows, width, call, k.output<Float32Port<T>>(2))));
    return LaunchNorm(k, rows, width, NormGradKernel<T, true, WholeRows, ThreadTeam>,
                      NormGradKernel<T, true, WholeRows, BlockTeam>, WholeRows{width}, rows, call.x,
                      PortOrNull<T>(k, 1), call.means, call.inv_stds, call.dy, k.output<T>(0));
  });
}

absl::Status RmsNormCuda(const KernelContext& k, int64_t rows, int64_t width, double epsilon) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return LaunchNorm(k, rows, width, NormKernel<T, false, WholeRows, ThreadTeam>,
                      NormKernel<T, false, WholeRows, BlockTeam>, WholeRows{width}, rows, epsilon, k.input<T>(0),
                      PortOrNull<T>(k, 1), nullptr, k.output<T>(0), nullptr, k.output<Float32Port<T>>(1));
  });
}

int64_t RmsNormGradCudaWorkspace(int64_t rows, int64_t width) { return LayerNormGradCudaWorkspace(rows, width); }

absl::Status RmsNormGradCuda(const KernelContext& k, int64_t rows, int64_t width) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const RowNormGrad<T> call = {.x = k.input<T>(0), .inv_stds = k.input<Float32Port<T>>(2), .dy = k.input<T>(3)};
    SNUG_RETURN_IF_ERROR((SumColumns<T, false>(k, rows, width, call, nullptr)));
    return LaunchNorm(k, rows, width, NormGradKernel<T, false, WholeRows, ThreadTeam>,
                      NormGradKernel<T, false, WholeRows, BlockTeam>, WholeRows{width}, rows, call.x,
                      PortOrNull<T>(k, 1), nullptr, call.inv_stds, call.dy, k.output<T>(0));
  });
}

absl::Status GroupNormCuda(const KernelContext& k, const GroupRows& rows, double epsilon) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const int64_t count = rows.samples * rows.groups;
    return LaunchNorm(k, count, rows.width(), NormKernel<T, true, GroupRows, ThreadTeam>,
                      NormKernel<T, true, GroupRows, BlockTeam>, rows, count, epsilon, k.input<T>(0),
                      PortOrNull<T>(k, 1), PortOrNull<T>(k, 2), k.output<T>(0), k.output<S>(1), k.output<S>(2));
  });
}

int64_t GroupNormGradCudaWorkspace(const ValueType& x) {
  const ChannelView view(x);
  return BatchNormCudaParts(view).parts * view.channels * static_cast<int64_t>(sizeof(ChannelSums));
}

absl::Status GroupNormGradCuda(const KernelContext& k, const GroupRows& rows) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const GroupGradients<T> terms = {.rows = rows,
                                     .x = k.input<T>(0),
                                     .dy = k.input<T>(4),
                                     .means = k.input<S>(2),
                                     .inv_stds = k.input<S>(3),
                                     .dweight = k.output<S>(1),
                                     .dbias = k.output<S>(2)};
    SNUG_RETURN_IF_ERROR(
        SumChannels<Accumulator<T>>(k, ChannelView(k.input_type(0)), terms, k.workspace<ChannelSums>()));
    const int64_t count = rows.samples * rows.groups;
    return LaunchNorm(k, count, rows.width(), NormGradKernel<T, true, GroupRows, ThreadTeam>,
                      NormGradKernel<T, true, GroupRows, BlockTeam>, rows, count, terms.x, PortOrNull<T>(k, 1),
                      terms.means, terms.inv_stds, terms.dy, k.output<T>(0));
  });
}

absl::Status LocalResponseNormCuda(const KernelContext& k, const ChannelWindow& window) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.input_type(0).num_elements();
    return k.cuda()->Launch(ResponseKernel<T>, ShapeFor(n), n, window, k.input<T>(0), k.output<T>(0));
  });
}

absl::Status LocalResponseNormGradCuda(const KernelContext& k, const ChannelWindow& window) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.input_type(0).num_elements();
    auto* passed = k.workspace<Accumulator<T>>();
    SNUG_RETURN_IF_ERROR(
        k.cuda()->Launch(ResponsePassedKernel<T>, ShapeFor(n), n, window, k.input<T>(0), k.input<T>(1), passed));
    return k.cuda()->Launch(ResponseGradKernel<T>, ShapeFor(n), n, window, k.input<T>(0), k.input<T>(1), passed,
                            k.output<T>(0));
  });
}

}  // namespace snug::core
