// Group norm by CUDA kernels where the numbers of a group lie together: groups are rows (kit/cuda/rows.h), in which the
// channel changes every `inner` numbers.
#include <algorithm>

#include "engine/base/status.h"
#include "ops/kernels/batch_norm/cuda_channels.h"
#include "ops/kernels/group_norm/cuda.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/rows.h"
#include "ops/kit/dispatch.h"

namespace snug::core {
namespace {

struct GroupRows {
  explicit GroupRows(const GroupView& view)
      : count(view.samples * view.groups),
        width(view.elements_of_group()),
        groups(view.groups),
        per_group(view.per_group),
        inner(view.inner),
        by_groups(groups, count),
        by_inner(inner, width) {}
  __device__ int64_t FirstChannel(int64_t row) const { return (row - by_groups.Divide(row) * groups) * per_group; }

  int64_t count, width, groups, per_group, inner;
  CudaDivisor by_groups, by_inner;
};

// Returns what `from` has for the channels of a pack that begins at number i of a row; `otherwise` where it is null.
template <int kPack, class S>
__device__ CudaPack<S, kPack> OfChannels(const GroupRows& rows, int64_t first_channel, int64_t i, const S* from,
                                         S otherwise) {
  CudaPack<S, kPack> all;
  if (from == nullptr) {
    for (int j = 0; j < kPack; ++j) all.values[j] = otherwise;
    return all;
  }
  const int64_t channel = rows.by_inner.Divide(i);
  const int64_t left = (channel + 1) * rows.inner - i;  // in the first one's run
  const int run = rows.inner < kPack ? static_cast<int>(rows.inner) : kPack;
  int next = left < kPack ? static_cast<int>(left) : kPack;
  const S* at = from + first_channel + channel;
  S value = *at;
  for (int j = 0; j < kPack; ++j) {
    if (j == next) {
      value = *++at;
      next += run;
    }
    all.values[j] = value;
  }
  return all;
}

// y may be x.
template <class T, class Deal>
__global__ void GroupNormKernel(GroupRows rows, GroupNormForward<T> call) {
  using A = Accumulator<T>;
  const double count = static_cast<double>(rows.width);
  for (int64_t r = Deal::Team::FirstRow(); r < rows.count; r += Deal::Team::RowStep()) {
    const DealtRow<T, Deal> row(call.x + r * rows.width, rows.width);
    const A mean =
        static_cast<A>(Deal::template Sum<A>(
                           rows.width, [&](int n, auto i) { return SumOfPack(row.At(n, i), [](A v) { return v; }); }) /
                       count);
    const double squares = Deal::template Sum<A>(rows.width, [&](int n, auto i) {
      return SumOfPack(row.At(n, i), [&](A v) { return (v - mean) * (v - mean); });
    });
    const A inv_std = static_cast<A>(1 / sqrt(squares / count + call.epsilon));
    if (Deal::Team::First() == 0) {
      call.means[r] = mean;
      call.inv_stds[r] = inv_std;
    }
    const int64_t first = rows.FirstChannel(r);
    Deal::Each(rows.width, [&](int n, auto i) {
      auto pack = row.At(n, i);
      const auto scale = OfChannels<Deal::kPack, A>(rows, first, i, call.weight, A(1));
      const auto shift = OfChannels<Deal::kPack, A>(rows, first, i, call.bias, A(0));
      for (int j = 0; j < Deal::kPack; ++j) {
        const A v = (static_cast<A>(pack.values[j]) - mean) * inv_std;
        pack.values[j] = static_cast<T>(v * scale.values[j] + shift.values[j]);
      }
      StorePack<true>(pack, call.y + r * rows.width + i, Deal::kPack);
    });
  }
}

// Computes dx, which may be x or dy.
template <class T, class Deal>
__global__ void GroupNormGradKernel(GroupRows rows, GroupNormBackward<T> call) {
  using A = Accumulator<T>;
  const A count = static_cast<A>(rows.width);
  for (int64_t r = Deal::Team::FirstRow(); r < rows.count; r += Deal::Team::RowStep()) {
    const DealtRow<T, Deal> values(call.x + r * rows.width, rows.width);
    const DealtRow<T, Deal> grads(call.dy + r * rows.width, rows.width);
    const A mean = call.means[r];
    const A inv_std = call.inv_stds[r];
    const int64_t first = rows.FirstChannel(r);
    std::conditional_t<(Deal::kHeld > 0), A, double> own_g = 0;
    std::conditional_t<(Deal::kHeld > 0), A, double> own_gx = 0;
    Deal::Each(rows.width, [&](int n, auto i) {
      const auto v = values.At(n, i);
      const auto d = grads.At(n, i);
      const auto scale = OfChannels<Deal::kPack, A>(rows, first, i, call.weight, A(1));
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
    const A mean_g = static_cast<A>(Deal::Team::template Combine<SumOp>(static_cast<double>(own_g))) / count;
    const A mean_gx =
        static_cast<A>(Deal::Team::template Combine<SumOp>(static_cast<double>(own_gx))) * inv_std / count;
    Deal::Each(rows.width, [&](int n, auto i) {
      const auto v = values.At(n, i);
      auto g = grads.At(n, i);
      const auto scale = OfChannels<Deal::kPack, A>(rows, first, i, call.weight, A(1));
      for (int j = 0; j < Deal::kPack; ++j) {
        const A normalized = (static_cast<A>(v.values[j]) - mean) * inv_std;
        const A own = static_cast<A>(g.values[j]) * scale.values[j];
        g.values[j] = static_cast<T>(inv_std * (own - mean_g - normalized * mean_gx));
      }
      StorePack<true>(g, call.dx + r * rows.width + i, Deal::kPack);
    });
  }
}

// What dweight and dbias are summed of. Rows are samples.
template <class Type>
struct GroupChannels {
  using T = Type;
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  static constexpr int kSums = 2;
  GroupNormBackward<T> call;
  int64_t groups;
  CudaDivisor by_per_group;  // of channels

  template <int kPack>
  struct Row {
    CudaPack<T, kPack> x, dy;
    int64_t sample;
  };
  template <int kPack>
  struct Columns {
    int group[kPack];
  };
  template <int kPack>
  __device__ Columns<kPack> ColumnOf(int64_t channel) const {
    Columns<kPack> columns;
    const auto group = static_cast<int>(by_per_group.Divide(channel));
    for (int j = 0; j < kPack; ++j) columns.group[j] = group;
    return columns;
  }
  template <int kPack>
  __device__ Columns<kPack> ColumnsOfBlock(const ColumnPlace<kPack>& place) const {
    Columns<kPack> columns;
    for (int j = 0; j < kPack; ++j) {
      columns.group[j] = j < place.count ? static_cast<int>(by_per_group.Divide(place.column + j)) : 0;
    }
    return columns;
  }
  template <bool kWhole, int kPack>
  __device__ Row<kPack> Load(int64_t row, int64_t at, int count) const {
    return {LoadPack<kWhole, kPack>(call.x + at, count), LoadPack<kWhole, kPack>(call.dy + at, count), row};
  }
  template <bool kWhole, int kPack, class Sums>
  __device__ void Use(const Columns<kPack>& columns, const Row<kPack>& row, int64_t, int, Sums& sums) const {
    for (int j = 0; j < kPack; ++j) {
      const int64_t group = row.sample * groups + columns.group[j];
      const A g = static_cast<A>(row.dy.values[j]);
      sums[0][j] += g * ((static_cast<A>(row.x.values[j]) - static_cast<A>(call.means[group])) * call.inv_stds[group]);
      sums[1][j] += g;
    }
  }
  __device__ void Take(int64_t channel, const double (&totals)[2]) const {
    call.dweight[channel] = static_cast<S>(totals[0]);
    call.dbias[channel] = static_cast<S>(totals[1]);
  }
};

ChannelView ChannelsOf(const GroupView& view) { return {view.samples, view.channels, view.inner}; }

}  // namespace

absl::Status NormalizeTogetherCuda(const KernelContext& k, const GroupView& view, double epsilon) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const GroupNormForward<T> call(k, epsilon);
    const GroupRows rows(view);
    return DealRows<T, true>(rows.count, rows.width, AllAligned(call.x, call.y), [&]<class Deal>(Deal, int64_t blocks) {
      return k.cuda()->Launch(GroupNormKernel<T, Deal>, {.blocks = blocks, .threads = kCudaThreads}, rows, call);
    });
  });
}

int64_t GradTogetherCudaWorkspace(const GroupView& view) { return ChannelSumsBytes(ChannelsOf(view), 2); }

absl::Status GradTogetherCuda(const KernelContext& k, const GroupView& view) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const GroupNormBackward<T> call(k);
    const GroupChannels<T> terms = {call, view.groups, CudaDivisor(view.per_group, view.channels)};
    SNUG_RETURN_IF_ERROR(
        SumChannels<2>(k, ChannelsOf(view), terms, AllAligned(call.x, call.dy), k.workspace<double>()));
    const GroupRows rows(view);
    return DealRows<T, true>(rows.count, rows.width, AllAligned(call.x, call.dy, call.dx),
                             [&]<class Deal>(Deal, int64_t blocks) {
                               return k.cuda()->Launch(GroupNormGradKernel<T, Deal>,
                                                       {.blocks = blocks, .threads = kCudaThreads}, rows, call);
                             });
  });
}

}  // namespace snug::core
