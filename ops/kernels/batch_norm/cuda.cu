// Batch normalisation by CUDA kernels. Each pass has three: one computes two sums for each channel, in parts; one adds
// up the parts; one computes every element.
#include <algorithm>

#include "ops/kernels/batch_norm/cuda.h"
#include "ops/kernels/batch_norm/cuda_channels.h"
#include "ops/kit/cuda_kernel.h"

namespace snug::core {
namespace {

// Sums differences from the channel's first element. It lies near the mean, so squaring loses little.
template <class T>
struct Statistics {
  using A = Accumulator<T>;
  BatchNormForward<T> call;
  int64_t inner;

  __device__ A FirstOf(int64_t channel) const { return static_cast<A>(call.x[channel * inner]); }
  __device__ ChannelTerms<A> of(int64_t i, int64_t channel) const {
    const A d = static_cast<A>(call.x[i]) - FirstOf(channel);
    return {d, d * d};
  }
  __device__ void Take(const ChannelView& view, int64_t channel, const ChannelSums& total) const {
    using S = Float32Port<T>;
    const double n = static_cast<double>(view.count());
    const double mean = total.first / n;
    const double var = total.second / n - mean * mean;
    call.batch_mean[channel] = static_cast<S>(mean + static_cast<double>(FirstOf(channel)));
    call.batch_var[channel] = static_cast<S>(var > 0 ? var : var == var ? 0 : var);
  }
};

template <class T>
__global__ void NormalizeKernel(int64_t n, ChannelView view, BatchNormForward<T> call) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const int64_t c = i / view.inner % view.channels;
    const auto mean = call.batch_mean != nullptr ? call.batch_mean[c] : call.mean[c];
    const double var = static_cast<double>(call.batch_var != nullptr ? call.batch_var[c] : call.var[c]);
    const double weight = call.weight != nullptr ? static_cast<double>(call.weight[c]) : 1;
    A v = (static_cast<A>(call.x[i]) - static_cast<A>(mean)) * static_cast<A>(weight / sqrt(var + call.epsilon));
    if (call.bias != nullptr) v += static_cast<A>(call.bias[c]);
    if (call.add != nullptr) v += static_cast<A>(call.add[i]);
    call.y[i] = static_cast<T>(Activate(call.activation, v));
  }
}

// Returns how much of the gradient the activation lets through.
template <class T>
__device__ Accumulator<T> GradThrough(const BatchNormBackward<T>& call, int64_t i, int64_t c, Accumulator<T> scale) {
  using A = Accumulator<T>;
  if (call.activation != Activation::kIdentity) {
    const A bias = call.bias != nullptr ? static_cast<A>(call.bias[c]) : A(0);
    const A v = call.y != nullptr ? static_cast<A>(call.y[i])
                                  : (static_cast<A>(call.x[i]) - static_cast<A>(call.mean[c])) * scale + bias;
    if (!LetsThrough(call.activation, v)) return A(0);
  }
  const A dy = static_cast<A>(call.dy[i]);
  return call.dy2 == nullptr ? dy : static_cast<A>(static_cast<T>(dy + static_cast<A>(call.dy2[i])));
}

// Two numbers of a channel, which each thread works out for itself.
template <class T>
struct ChannelScale {
  double inv_std;
  Accumulator<T> scale;

  __device__ ChannelScale(const BatchNormBackward<T>& call, int64_t c) {
    inv_std = 1 / sqrt(static_cast<double>(call.var[c]) + call.epsilon);
    const double weight = call.weight != nullptr ? static_cast<double>(call.weight[c]) : 1;
    scale = static_cast<Accumulator<T>>(weight * inv_std);
  }
};

template <class T>
struct Gradients {
  using A = Accumulator<T>;
  BatchNormBackward<T> call;
  ChannelSums* totals;  // [channels]: dbias and dweight, before rounding

  __device__ ChannelTerms<A> of(int64_t i, int64_t c) const {
    const A scale =
        call.activation == Activation::kIdentity || call.y != nullptr ? A(0) : ChannelScale<T>(call, c).scale;
    const A g = GradThrough(call, i, c, scale);
    return {g, g * (static_cast<A>(call.x[i]) - static_cast<A>(call.mean[c]))};
  }
  __device__ void Take(const ChannelView&, int64_t c, const ChannelSums& total) const {
    using S = Float32Port<T>;
    const double product = total.second * ChannelScale<T>(call, c).inv_std;
    call.dbias[c] = static_cast<S>(total.first);
    call.dweight[c] = static_cast<S>(product);
    totals[c] = {total.first, product};
  }
};

// dx and dadd may lie on what is read here, because one thread reads and writes each element.
template <class T>
__global__ void GradKernel(int64_t n, ChannelView view, BatchNormBackward<T> call, const ChannelSums* totals) {
  using A = Accumulator<T>;
  const double count = static_cast<double>(view.count());
  SNUG_CUDA_FOR(i, n) {
    const int64_t c = i / view.inner % view.channels;
    const ChannelScale<T> channel(call, c);
    const A through = GradThrough(call, i, c, channel.scale);
    const A centred = static_cast<A>(call.x[i]) - static_cast<A>(call.mean[c]);
    const ChannelSums total = call.training ? totals[c] : ChannelSums{};
    const A dx = channel.scale * (through - static_cast<A>(total.first / count) -
                                  centred * static_cast<A>(channel.inv_std * total.second / count));
    if (call.dadd != nullptr) call.dadd[i] = static_cast<T>(through);
    call.dx[i] = static_cast<T>(dx);
  }
}

template <class T>
__global__ void UpdateKernel(int64_t n, const uint8_t* gate, double momentum, double count, const T* mean, const T* var,
                             T* running_mean, T* running_var) {
  if (*gate == 0) return;
  SNUG_CUDA_FOR(c, n) {
    running_mean[c] =
        static_cast<T>((1 - momentum) * static_cast<double>(running_mean[c]) + momentum * static_cast<double>(mean[c]));
    running_var[c] = static_cast<T>((1 - momentum) * static_cast<double>(running_var[c]) +
                                    momentum * static_cast<double>(var[c]) * count / (count - 1));
  }
}

}  // namespace

BatchNormCudaParts::BatchNormCudaParts(const ChannelView& view) {
  by_block = view.inner >= 16;
  const int64_t worthwhile = by_block ? view.count() / (1 << 12) : view.count() / 32;
  const int64_t useful = (by_block ? 1 << 11 : 1 << 16) / std::max<int64_t>(view.channels, 1);
  parts = std::clamp<int64_t>(std::min(worthwhile, useful), 1, 256);
}

// Makes room for sums of [parts, channels], and for totals of [channels].
absl::Status PrepareBatchNormCuda(PrepareContext& c) {
  const ChannelView view(c.types().input(0));
  c.SetWorkspaceBytes((BatchNormCudaParts(view).parts + 1) * view.channels * static_cast<int64_t>(sizeof(ChannelSums)));
  return absl::OkStatus();
}

template <class T>
absl::Status BatchNormOnCuda(const KernelContext& k, const ChannelView& view, const BatchNormForward<T>& call) {
  if (call.batch_mean != nullptr) {
    SNUG_RETURN_IF_ERROR(
        SumChannels<Accumulator<T>>(k, view, Statistics<T>{call, view.inner}, k.workspace<ChannelSums>()));
  }
  const int64_t n = view.channels * view.count();
  return k.cuda()->Launch(NormalizeKernel<T>, ShapeFor(n), n, view, call);
}

template <class T>
absl::Status BatchNormOnCuda(const KernelContext& k, const ChannelView& view, const BatchNormBackward<T>& call) {
  auto* totals = k.workspace<ChannelSums>();
  SNUG_RETURN_IF_ERROR(SumChannels<Accumulator<T>>(k, view, Gradients<T>{call, totals}, totals + view.channels));
  const int64_t n = view.channels * view.count();
  return k.cuda()->Launch(GradKernel<T>, ShapeFor(n), n, view, call, totals);
}

template absl::Status BatchNormOnCuda(const KernelContext&, const ChannelView&, const BatchNormForward<float>&);
template absl::Status BatchNormOnCuda(const KernelContext&, const ChannelView&, const BatchNormForward<BFloat16>&);
template absl::Status BatchNormOnCuda(const KernelContext&, const ChannelView&, const BatchNormForward<double>&);
template absl::Status BatchNormOnCuda(const KernelContext&, const ChannelView&, const BatchNormBackward<float>&);
template absl::Status BatchNormOnCuda(const KernelContext&, const ChannelView&, const BatchNormBackward<BFloat16>&);
template absl::Status BatchNormOnCuda(const KernelContext&, const ChannelView&, const BatchNormBackward<double>&);

absl::Status BatchNormUpdateCuda(const KernelContext& k, double momentum, double n) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t channels = k.input_type(0).num_elements();
    return k.cuda()->Launch(UpdateKernel<T>, ShapeFor(channels), channels, k.input<uint8_t>(k.num_inputs() - 1),
                            momentum, n, k.input<T>(2), k.input<T>(3), k.variable<T>(0), k.variable<T>(1));
  });
}

}  // namespace snug::core
