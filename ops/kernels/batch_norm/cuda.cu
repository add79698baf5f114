// Batch normalisation by CUDA kernels. Each pass has three: one computes two sums for each channel, in parts; one adds
// up the parts; one computes every element. What is the same for a channel is computed once by a block.
#include <algorithm>
#include <type_traits>

#include "ops/cuda_numbers.h"
#include "ops/kernels/batch_norm/cuda.h"
#include "ops/kernels/batch_norm/cuda_channels.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/together.h"

namespace snug::core {
namespace {

// What is the same for all elements of a channel: v = (x - mean) scale + bias, and what the gradient needs.
template <class A>
struct Channel {
  A mean, scale, bias;
  A mean_g = 0, mean_gx = 0;  // the mean gradient, and its slope in x - mean
};
template <class A, int kPack>
struct Channels {
  Channel<A> of[kPack];
};

// The constants of a pack that is all of one channel.
template <int kPack, class A>
__device__ Channels<A, kPack> Repeat(const Channel<A>& channel) {
  Channels<A, kPack> all;
  for (int j = 0; j < kPack; ++j) all.of[j] = channel;
  return all;
}

// Returns the constants of a thread's channels, each of which one thread of the block works out.
template <class A, int kPack, class Of>
__device__ Channels<A, kPack> ShareChannels(const ColumnPlace<kPack>& place, int64_t channels, const Of& of) {
  __shared__ Channel<A> shared[ColumnTile::kMost];
  static_assert(ColumnTile::kMost <= kCudaThreads);
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < place.width && place.first + thread < channels) shared[thread] = of(place.first + thread);
  __syncthreads();
  Channels<A, kPack> own;
  for (int j = 0; j < kPack; ++j) own.of[j] = shared[j < place.count ? place.column - place.first + j : 0];
  return own;
}

// Sums differences from the channel's first element. Where that is far from the mean, by a hundred times what the
// others spread, the variance has half of its digits: the sums are not taken again as on the processor (fast.cc).
template <class Type>
struct Statistics {
  using T = Type;
  using A = Accumulator<T>;
  static constexpr int kSums = 2;
  BatchNormForward<T> call;
  ChannelView view;

  template <int kPack>
  using Row = CudaPack<T, kPack>;
  template <int kPack>
  struct Columns {
    A first[kPack];
  };

  __device__ A FirstOf(int64_t channel) const {  // of an empty batch there is none
    return view.count() > 0 ? static_cast<A>(call.x[channel * view.inner]) : A(0);
  }
  template <int kPack>
  __device__ Columns<kPack> ColumnOf(int64_t channel) const {
    Columns<kPack> columns;
    const A first = FirstOf(channel);
    for (int j = 0; j < kPack; ++j) columns.first[j] = first;
    return columns;
  }
  template <int kPack>
  __device__ Columns<kPack> ColumnsOfBlock(const ColumnPlace<kPack>& place) const {
    Columns<kPack> columns;
    for (int j = 0; j < kPack; ++j) columns.first[j] = j < place.count ? FirstOf(place.column + j) : A(0);
    return columns;
  }
  template <bool kWhole, int kPack>
  __device__ Row<kPack> Load(int64_t, int64_t at, int count) const {
    return LoadPack<kWhole, kPack>(call.x + at, count);
  }
  template <bool kWhole, int kPack, class Sums>
  __device__ void Use(const Columns<kPack>& columns, const Row<kPack>& row, int64_t, int, Sums& sums) const {
    for (int j = 0; j < kPack; ++j) {
      const A d = static_cast<A>(row.values[j]) - columns.first[j];
      sums[0][j] += d;
      sums[1][j] += d * d;
    }
  }
  __device__ void Take(int64_t channel, const double (&totals)[2]) const {
    using S = Float32Port<T>;
    const double n = static_cast<double>(view.count());
    const double mean = totals[0] / n;
    const double var = totals[1] / n - mean * mean;
    call.batch_mean[channel] = static_cast<S>(mean + static_cast<double>(FirstOf(channel)));
    call.batch_var[channel] = static_cast<S>(var > 0 ? var : var == var ? 0 : var);
  }
};

template <class Type, bool kAdds>
struct Normalize {
  using T = Type;
  using A = Accumulator<T>;
  static constexpr int kSums = 0;
  BatchNormForward<T> call;
  ChannelView view;

  template <int kPack>
  struct Row {
    CudaPack<T, kPack> x, add;
  };
  template <int kPack>
  using Columns = Channels<A, kPack>;

  __device__ Channel<A> ChannelOf(int64_t c) const {
    const auto mean = call.batch_mean != nullptr ? call.batch_mean[c] : call.mean[c];
    const double var = static_cast<double>(call.batch_var != nullptr ? call.batch_var[c] : call.var[c]);
    const double weight = call.weight != nullptr ? static_cast<double>(call.weight[c]) : 1;
    return {static_cast<A>(mean), static_cast<A>(weight / sqrt(var + call.epsilon)),
            call.bias != nullptr ? static_cast<A>(call.bias[c]) : A(0)};
  }
  template <int kPack>
  __device__ Columns<kPack> ColumnOf(int64_t channel) const {
    return Repeat<kPack>(ChannelOf(channel));
  }
  template <int kPack>
  __device__ Columns<kPack> ColumnsOfBlock(const ColumnPlace<kPack>& place) const {
    return ShareChannels<A>(place, view.channels, [&](int64_t c) { return ChannelOf(c); });
  }
  template <bool kWhole, int kPack>
  __device__ Row<kPack> Load(int64_t, int64_t at, int count) const {
    Row<kPack> row = {};
    row.x = LoadPack<kWhole, kPack>(call.x + at, count);
    if constexpr (kAdds) row.add = LoadPack<kWhole, kPack>(call.add + at, count);
    return row;
  }
  template <bool kWhole, int kPack, class Sums>
  __device__ void Use(const Columns<kPack>& columns, const Row<kPack>& row, int64_t at, int count, Sums&) const {
    A y[kPack];
    for (int j = 0; j < kPack; ++j) {
      const Channel<A>& c = columns.of[j];
      A v = (static_cast<A>(row.x.values[j]) - c.mean) * c.scale + c.bias;
      if constexpr (kAdds) v += static_cast<A>(row.add.values[j]);
      if (call.activation != Activation::kIdentity) v = v < A(0) ? A(0) : v;
      if (call.activation == Activation::kRelu6) v = v > A(6) ? A(6) : v;
      y[j] = v;
    }
    StorePack<kWhole>(RoundPack<T>(y), call.y + at, count);
  }
};

struct Totals {
  double bias = 0, weight = 0;  // the gradients, before rounding
};

template <class T>
__device__ double InvStd(const BatchNormBackward<T>& call, int64_t c) {
  return 1 / sqrt(static_cast<double>(call.var[c]) + call.epsilon);
}

// Returns the constants of a channel; `totals` may be null.
template <class T>
__device__ Channel<Accumulator<T>> GradChannelOf(const BatchNormBackward<T>& call, double count, const Totals* totals,
                                                 int64_t c) {
  using A = Accumulator<T>;
  const double inv_std = InvStd(call, c);
  const double weight = call.weight != nullptr ? static_cast<double>(call.weight[c]) : 1;
  Channel<A> channel = {static_cast<A>(call.mean[c]), static_cast<A>(weight * inv_std),
                        call.bias != nullptr ? static_cast<A>(call.bias[c]) : A(0)};
  if (totals != nullptr) {
    channel.mean_g = static_cast<A>(totals[c].bias / count);
    channel.mean_gx = static_cast<A>(inv_std * totals[c].weight / count);
  }
  return channel;
}

// Sums the gradient g and g (x - mean). If dadd is asked for, kStores, g is written to it, and y says what the
// activation lets through.
template <class Type, bool kStores>
struct GradientSums {
  using T = Type;
  using A = Accumulator<T>;
  static constexpr int kSums = 2;
  BatchNormBackward<T> call;
  ChannelView view;
  Totals* totals;  // [channels]

  template <int kPack>
  struct Row {
    CudaPack<T, kPack> x, dy, y, dy2;
  };
  template <int kPack>
  using Columns = Channels<A, kPack>;

  __device__ Channel<A> ChannelOf(int64_t c) const { return GradChannelOf(call, 1, nullptr, c); }
  template <int kPack>
  __device__ Columns<kPack> ColumnOf(int64_t channel) const {
    return Repeat<kPack>(ChannelOf(channel));
  }
  template <int kPack>
  __device__ Columns<kPack> ColumnsOfBlock(const ColumnPlace<kPack>& place) const {
    return ShareChannels<A>(place, view.channels, [&](int64_t c) { return ChannelOf(c); });
  }
  template <bool kWhole, int kPack>
  __device__ Row<kPack> Load(int64_t, int64_t at, int count) const {
    Row<kPack> row = {};
    row.x = LoadPack<kWhole, kPack>(call.x + at, count);
    row.dy = LoadPack<kWhole, kPack>(call.dy + at, count);
    if constexpr (kStores) {
      row.y = LoadPack<kWhole, kPack>(call.y + at, count);
      if (call.dy2 != nullptr) row.dy2 = LoadPack<kWhole, kPack>(call.dy2 + at, count);
    }
    return row;
  }
  template <bool kWhole, int kPack, class Sums>
  __device__ void Use(const Columns<kPack>& columns, const Row<kPack>& row, int64_t at, int count, Sums& sums) const {
    [[maybe_unused]] A masked[kPack] = {};
    for (int j = 0; j < kPack; ++j) {
      const Channel<A>& c = columns.of[j];
      const A centred = static_cast<A>(row.x.values[j]) - c.mean;
      A g = static_cast<A>(row.dy.values[j]);
      if constexpr (kStores) {
        if (call.dy2 != nullptr) g = static_cast<A>(static_cast<T>(g + static_cast<A>(row.dy2.values[j])));
        if (!LetsThrough(call.activation, static_cast<A>(row.y.values[j]))) g = A(0);
        masked[j] = g;
      } else if (!LetsThrough(call.activation, centred * c.scale + c.bias)) {
        g = A(0);
      }
      sums[0][j] += g;
      sums[1][j] += g * centred;
    }
    if constexpr (kStores) StorePack<kWhole>(RoundPack<T>(masked), call.dadd + at, count);
  }
  __device__ void Take(int64_t c, const double (&found)[2]) const {
    using S = Float32Port<T>;
    const double product = found[1] * InvStd(call, c);
    call.dbias[c] = static_cast<S>(found[0]);
    call.dweight[c] = static_cast<S>(product);
    totals[c] = {found[0], product};
  }
};

// Computes dx. With kStored the first kernel has left in dadd what the activation lets through. dx may lie on what is
// read here, because one thread reads and writes each element.
template <class Type, bool kStored>
struct GradientSweep {
  using T = Type;
  using A = Accumulator<T>;
  static constexpr int kSums = 0;
  BatchNormBackward<T> call;
  ChannelView view;
  const Totals* totals;

  template <int kPack>
  struct Row {
    CudaPack<T, kPack> x, g;
  };
  template <int kPack>
  using Columns = Channels<A, kPack>;

  __device__ Channel<A> ChannelOf(int64_t c) const {
    return GradChannelOf(call, static_cast<double>(view.count()), call.training ? totals : nullptr, c);
  }
  template <int kPack>
  __device__ Columns<kPack> ColumnOf(int64_t channel) const {
    return Repeat<kPack>(ChannelOf(channel));
  }
  template <int kPack>
  __device__ Columns<kPack> ColumnsOfBlock(const ColumnPlace<kPack>& place) const {
    return ShareChannels<A>(place, view.channels, [&](int64_t c) { return ChannelOf(c); });
  }
  template <bool kWhole, int kPack>
  __device__ Row<kPack> Load(int64_t, int64_t at, int count) const {
    return {LoadPack<kWhole, kPack>(call.x + at, count),
            LoadPack<kWhole, kPack>((kStored ? call.dadd : call.dy) + at, count)};
  }
  template <bool kWhole, int kPack, class Sums>
  __device__ void Use(const Columns<kPack>& columns, const Row<kPack>& row, int64_t at, int count, Sums&) const {
    A dx[kPack];
    for (int j = 0; j < kPack; ++j) {
      const Channel<A>& c = columns.of[j];
      const A centred = static_cast<A>(row.x.values[j]) - c.mean;
      A g = static_cast<A>(row.g.values[j]);
      if (!kStored && !LetsThrough(call.activation, centred * c.scale + c.bias)) g = A(0);
      dx[j] = c.scale * (g - c.mean_g - centred * c.mean_gx);
    }
    StorePack<kWhole>(RoundPack<T>(dx), call.dx + at, count);
  }
};

// What an update does to the running statistics of one batch norm.
template <class T>
struct StatisticUpdate {
  int64_t n;
  const T *mean, *var;
  T *running_mean, *running_var;
  const uint8_t* gate;
  StatisticNumbers numbers;
};

template <class All>
__global__ void UpdateKernel(const __grid_constant__ All all) {
  const int at = all.At(blockIdx.x);
  const auto& update = all.members[at];
  using T = std::remove_reference_t<decltype(*update.running_mean)>;
  if (*update.gate == 0) return;
  const double momentum = update.numbers.momentum;
  const double count = update.numbers.count;
  SNUG_TOGETHER_FOR(c, all, at, update.n) {
    T& mean = update.running_mean[c];
    T& var = update.running_var[c];
    mean = static_cast<T>((1 - momentum) * static_cast<double>(mean) + momentum * static_cast<double>(update.mean[c]));
    var = static_cast<T>((1 - momentum) * static_cast<double>(var) +
                         momentum * static_cast<double>(update.var[c]) * count / (count - 1));
  }
}

}  // namespace

// Makes room for totals of [channels], and for the parts' sums.
absl::Status PrepareBatchNormCuda(PrepareContext& c) {
  const ChannelView view(c.types().input(0));
  c.SetWorkspaceBytes(view.channels * static_cast<int64_t>(sizeof(Totals)) + ChannelSumsBytes(view, 2));
  return absl::OkStatus();
}

template <class T>
absl::Status BatchNormOnCuda(const KernelContext& k, const ChannelView& view, const BatchNormForward<T>& call) {
  const bool aligned = AllAligned(call.x, call.add, call.y);
  if (call.batch_mean != nullptr) {
    SNUG_RETURN_IF_ERROR(SumChannels<4>(k, view, Statistics<T>{call, view}, aligned, k.workspace<double>()));
  }
  return call.add != nullptr ? SweepChannels<2>(k, view, Normalize<T, true>{call, view}, aligned)
                             : SweepChannels<4>(k, view, Normalize<T, false>{call, view}, aligned);
}

template <class T>
absl::Status BatchNormOnCuda(const KernelContext& k, const ChannelView& view, const BatchNormBackward<T>& call) {
  auto* totals = k.workspace<Totals>();
  auto* sums = reinterpret_cast<double*>(totals + view.channels);
  const bool aligned = AllAligned(call.x, call.y, call.dy, call.dy2, call.dx, call.dadd);
  const auto run = [&]<bool kDadd>(std::bool_constant<kDadd>) -> absl::Status {
    SNUG_RETURN_IF_ERROR(
        SumChannels < kDadd ? 2 : 4 > (k, view, GradientSums<T, kDadd>{call, view, totals}, aligned, sums));
    return SweepChannels<2>(k, view, GradientSweep<T, kDadd>{call, view, totals}, aligned);
  };
  return call.dadd != nullptr ? run(std::true_type()) : run(std::false_type());
}

template absl::Status BatchNormOnCuda(const KernelContext&, const ChannelView&, const BatchNormForward<float>&);
template absl::Status BatchNormOnCuda(const KernelContext&, const ChannelView&, const BatchNormForward<BFloat16>&);
template absl::Status BatchNormOnCuda(const KernelContext&, const ChannelView&, const BatchNormForward<double>&);
template absl::Status BatchNormOnCuda(const KernelContext&, const ChannelView&, const BatchNormBackward<float>&);
template absl::Status BatchNormOnCuda(const KernelContext&, const ChannelView&, const BatchNormBackward<BFloat16>&);
template absl::Status BatchNormOnCuda(const KernelContext&, const ChannelView&, const BatchNormBackward<double>&);

absl::Status BatchNormUpdateCuda(absl::Span<const KernelContext> nodes) {
  return DispatchFloating(nodes[0].input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto member = [](const KernelContext& k) {
      return StatisticUpdate<T>{.n = k.input_type(0).num_elements(),
                                .mean = k.input<T>(2),
                                .var = k.input<T>(3),
                                .running_mean = k.variable<T>(0),
                                .running_var = k.variable<T>(1),
                                .gate = k.input<uint8_t>(k.num_inputs() - 1),
                                .numbers = k.prepared<StatisticNumbers>()};
    };
    return LaunchTogether(nodes, member, [&](const auto& all, const cuda::LaunchShape& shape) {
      return nodes[0].cuda()->Launch(UpdateKernel<std::remove_cvref_t<decltype(all)>>, shape, all);
    });
  });
}

}  // namespace snug::core
