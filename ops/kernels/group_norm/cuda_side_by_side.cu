// Group norm by CUDA kernels where the channels of several positions lie side by side: channels are columns
// (kit/cuda/columns.h), which each sample sums for itself. A warp then adds up the columns and parts of a group, and a
// sweep follows.
#include <algorithm>

#include "engine/base/status.h"
#include "ops/kernels/group_norm/cuda.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/columns.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/rows.h"
#include "ops/kit/dispatch.h"

namespace snug::core {
namespace {

// A node's sizes as kernels need them. `parts` are those of a sample.
struct GroupSizes {
  GroupSizes(const GroupView& view, int64_t parts_of_sample)
      : samples(view.samples),
        channels(view.channels),
        inner(view.inner),
        groups(view.groups),
        per_group(view.per_group),
        parts(parts_of_sample),
        by_groups(groups, samples * groups),
        by_per_group(per_group, std::max(channels, parts * per_group)) {}
  __device__ double count() const { return static_cast<double>(per_group * inner); }
  // Returns the number of a channel's group, among those of all samples.
  __device__ int64_t GroupOf(int64_t sample, int64_t channel) const {
    return sample * groups + by_per_group.Divide(channel);
  }

  int64_t samples, channels, inner, groups, per_group, parts;
  CudaDivisor by_groups, by_per_group;
};

ColumnTiles TilesOf(const GroupView& view) { return {view.inner, view.channels, view.samples}; }

// Sums differences from the group's first number in the sample. Where that is far from the mean, by a hundred times
// what the others spread, the variance has half of its digits.
template <class Type>
struct GroupStatistics {
  using T = Type;
  using A = Accumulator<T>;
  static constexpr int kSums = 2;
  GroupSizes sizes;
  const T* x;

  template <int kPack>
  using Row = CudaPack<T, kPack>;
  template <int kPack>
  struct Columns {
    A first[kPack];
  };
  __device__ A FirstOf(int64_t group) const {
    const int64_t sample = sizes.by_groups.Divide(group);
    const int64_t channel = (group - sample * sizes.groups) * sizes.per_group;
    return static_cast<A>(x[sample * sizes.inner * sizes.channels + channel]);
  }
  template <int kPack>
  __device__ Columns<kPack> ColumnsOfBlock(const ColumnPlace<kPack>& place) const {
    Columns<kPack> columns;
    for (int j = 0; j < kPack; ++j) {
      columns.first[j] = j < place.count ? FirstOf(sizes.GroupOf(place.sample, place.column + j)) : A(0);
    }
    return columns;
  }
  template <bool kWhole, int kPack>
  __device__ Row<kPack> Load(int64_t, int64_t at, int count) const {
    return LoadPack<kWhole, kPack>(x + at, count);
  }
  template <bool kWhole, int kPack, class Sums>
  __device__ void Use(const Columns<kPack>& columns, const Row<kPack>& row, int64_t, int, Sums& sums) const {
    for (int j = 0; j < kPack; ++j) {
      const A d = static_cast<A>(row.values[j]) - columns.first[j];
      sums[0][j] += d;
      sums[1][j] += d * d;
    }
  }
};

// Calls add(channel, first, second) with each pair of sums of a group: of each of its channels, in each part. A warp
// calls it, and each thread has some of them.
template <class Add>
__device__ void EachOfGroup(const GroupSizes& sizes, int64_t group, const double* sums, const Add& add) {
  const int64_t sample = sizes.by_groups.Divide(group);
  const int64_t first = (group - sample * sizes.groups) * sizes.per_group;
  const double* of_sample = sums + sample * sizes.parts * 2 * sizes.channels;
#pragma unroll 4
  for (int64_t i = WarpTeam::First(); i < sizes.parts * sizes.per_group; i += WarpTeam::kThreads) {
    const int64_t part = sizes.by_per_group.Divide(i);
    const int64_t channel = first + i - part * sizes.per_group;
    const double* at = of_sample + part * 2 * sizes.channels + channel;
    add(channel, at[0], at[sizes.channels]);
  }
}

template <class T>
__global__ void GroupStatisticsKernel(GroupStatistics<T> terms, const double* sums, GroupNormForward<T> call) {
  using S = Float32Port<T>;
  const GroupSizes& sizes = terms.sizes;
  for (int64_t group = WarpTeam::FirstRow(); group < sizes.samples * sizes.groups; group += WarpTeam::RowStep()) {
    double sum = 0;
    double squares = 0;
    EachOfGroup(sizes, group, sums, [&](int64_t, double difference, double square) {
      sum += difference;
      squares += square;
    });
    const double mean = WarpReduce<SumOp>(sum) / sizes.count();
    const double var = WarpReduce<SumOp>(squares) / sizes.count() - mean * mean;
    if (WarpTeam::First() > 0) continue;
    call.means[group] = static_cast<S>(mean + static_cast<double>(terms.FirstOf(group)));
    call.inv_stds[group] = static_cast<S>(1 / sqrt((var > 0 ? var : var == var ? 0 : var) + call.epsilon));
  }
}

template <class Type>
struct NormalizeGroups {
  using T = Type;
  using A = Accumulator<T>;
  GroupSizes sizes;
  GroupNormForward<T> call;

  template <int kPack>
  using Row = CudaPack<T, kPack>;
  template <int kPack>
  struct Columns {
    A mean[kPack], scale[kPack], bias[kPack];
  };
  template <int kPack>
  __device__ Columns<kPack> ColumnsOfBlock(const ColumnPlace<kPack>& place) const {
    const int64_t column = place.column;
    Columns<kPack> columns = {};
    for (int j = 0; j < kPack && j < place.count; ++j) {
      const int64_t group = sizes.GroupOf(place.sample, column + j);
      columns.mean[j] = call.means[group];
      columns.scale[j] = call.inv_stds[group] * (call.weight != nullptr ? call.weight[column + j] : A(1));
      columns.bias[j] = call.bias != nullptr ? call.bias[column + j] : A(0);
    }
    return columns;
  }
  template <bool kWhole, int kPack>
  __device__ Row<kPack> Load(int64_t, int64_t at, int count) const {
    return LoadPack<kWhole, kPack>(call.x + at, count);
  }
  template <bool kWhole, int kPack, class Sums>
  __device__ void Use(const Columns<kPack>& columns, const Row<kPack>& row, int64_t at, int count, Sums&) const {
    Row<kPack> y;
    for (int j = 0; j < kPack; ++j) {
      y.values[j] =
          static_cast<T>((static_cast<A>(row.values[j]) - columns.mean[j]) * columns.scale[j] + columns.bias[j]);
    }
    StorePack<kWhole>(y, call.y + at, count);
  }
};

// Sums dy x' and dy, of which the sums over all samples are the gradients of weight and bias.
template <class Type>
struct GroupGradientSums {
  using T = Type;
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  static constexpr int kSums = 2;
  GroupSizes sizes;
  GroupNormBackward<T> call;

  template <int kPack>
  struct Row {
    CudaPack<T, kPack> x, dy;
  };
  template <int kPack>
  struct Columns {
    A mean[kPack], inv_std[kPack];
  };
  template <int kPack>
  __device__ Columns<kPack> ColumnsOfBlock(const ColumnPlace<kPack>& place) const {
    const int64_t column = place.column;
    Columns<kPack> columns = {};
    for (int j = 0; j < kPack && j < place.count; ++j) {
      const int64_t group = sizes.GroupOf(place.sample, column + j);
      columns.mean[j] = call.means[group];
      columns.inv_std[j] = call.inv_stds[group];
    }
    return columns;
  }
  template <bool kWhole, int kPack>
  __device__ Row<kPack> Load(int64_t, int64_t at, int count) const {
    return {LoadPack<kWhole, kPack>(call.x + at, count), LoadPack<kWhole, kPack>(call.dy + at, count)};
  }
  template <bool kWhole, int kPack, class Sums>
  __device__ void Use(const Columns<kPack>& columns, const Row<kPack>& row, int64_t, int, Sums& sums) const {
    for (int j = 0; j < kPack; ++j) {
      const A g = static_cast<A>(row.dy.values[j]);
      sums[0][j] += g * ((static_cast<A>(row.x.values[j]) - columns.mean[j]) * columns.inv_std[j]);
      sums[1][j] += g;
    }
  }
  __device__ void Take(int64_t channel, const double (&totals)[2]) const {
    call.dweight[channel] = static_cast<S>(totals[0]);
    call.dbias[channel] = static_cast<S>(totals[1]);
  }
};

// The means of g and of g x' over a group.
struct GroupMeans {
  double g, gx;
};

template <class T>
__global__ void GroupMeansKernel(GroupGradientSums<T> terms, const double* sums, GroupMeans* means) {
  const GroupSizes& sizes = terms.sizes;
  for (int64_t group = WarpTeam::FirstRow(); group < sizes.samples * sizes.groups; group += WarpTeam::RowStep()) {
    double g = 0;
    double gx = 0;
    EachOfGroup(sizes, group, sums, [&](int64_t channel, double product, double dy) {
      const double weight = terms.call.weight != nullptr ? static_cast<double>(terms.call.weight[channel]) : 1;
      g += weight * dy;
      gx += weight * product;
    });
    g = WarpReduce<SumOp>(g) / sizes.count();
    gx = WarpReduce<SumOp>(gx) / sizes.count();
    if (WarpTeam::First() == 0) means[group] = {g, gx};
  }
}

// dx = dy scale + ((x - mean) slope + offset). dx may be x or dy.
template <class Type>
struct GroupGradientSweep {
  using T = Type;
  using A = Accumulator<T>;
  GroupSizes sizes;
  GroupNormBackward<T> call;
  const GroupMeans* of_groups;

  template <int kPack>
  struct Row {
    CudaPack<T, kPack> x, dy;
  };
  template <int kPack>
  struct Columns {
    A mean[kPack], scale[kPack], slope[kPack], offset[kPack];
  };
  template <int kPack>
  __device__ Columns<kPack> ColumnsOfBlock(const ColumnPlace<kPack>& place) const {
    const int64_t column = place.column;
    Columns<kPack> columns = {};
    for (int j = 0; j < kPack && j < place.count; ++j) {
      const int64_t group = sizes.GroupOf(place.sample, column + j);
      const A inv_std = call.inv_stds[group];
      columns.mean[j] = call.means[group];
      columns.scale[j] = inv_std * (call.weight != nullptr ? call.weight[column + j] : A(1));
      columns.slope[j] = -inv_std * inv_std * static_cast<A>(of_groups[group].gx);
      columns.offset[j] = -inv_std * static_cast<A>(of_groups[group].g);
    }
    return columns;
  }
  template <bool kWhole, int kPack>
  __device__ Row<kPack> Load(int64_t, int64_t at, int count) const {
    return {LoadPack<kWhole, kPack>(call.x + at, count), LoadPack<kWhole, kPack>(call.dy + at, count)};
  }
  template <bool kWhole, int kPack, class Sums>
  __device__ void Use(const Columns<kPack>& columns, const Row<kPack>& row, int64_t at, int count, Sums&) const {
    CudaPack<T, kPack> dx;
    for (int j = 0; j < kPack; ++j) {
      const A from_mean = static_cast<A>(row.x.values[j]) - columns.mean[j];
      dx.values[j] = static_cast<T>(static_cast<A>(row.dy.values[j]) * columns.scale[j] +
                                    (from_mean * columns.slope[j] + columns.offset[j]));
    }
    StorePack<kWhole>(dx, call.dx + at, count);
  }
};

cuda::LaunchShape WarpForEachGroup(const GroupView& view) {
  return {.blocks = std::min<int64_t>(cuda::CountBlocks(view.samples * view.groups, WarpTeam::kInBlock), 1 << 14),
          .threads = kCudaThreads};
}

}  // namespace

int64_t NormalizeSideBySideCudaWorkspace(const GroupView& view) { return TilesOf(view).WorkspaceBytes(2); }

absl::Status NormalizeSideBySideCuda(const KernelContext& k, const GroupView& view, double epsilon) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const ColumnTiles tiles = TilesOf(view);
    const GroupSizes sizes(view, tiles.parts);
    const GroupNormForward<T> call(k, epsilon);
    const bool whole = view.channels % kCudaPack<T> == 0 && AllAligned(call.x, call.y);
    auto* const sums = k.workspace<double>();
    const GroupStatistics<T> statistics = {sizes, call.x};
    SNUG_RETURN_IF_ERROR(SumColumnsInParts<4>(k, tiles, statistics, whole, sums));
    SNUG_RETURN_IF_ERROR(k.cuda()->Launch(GroupStatisticsKernel<T>, WarpForEachGroup(view), statistics, sums, call));
    return SweepColumns<4>(k, view.inner, view.channels, NormalizeGroups<T>{sizes, call}, whole, view.samples);
  });
}

int64_t GradSideBySideCudaWorkspace(const GroupView& view) {
  return TilesOf(view).WorkspaceBytes(2) + view.samples * view.groups * static_cast<int64_t>(sizeof(GroupMeans));
}

absl::Status GradSideBySideCuda(const KernelContext& k, const GroupView& view) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const ColumnTiles tiles = TilesOf(view);
    const GroupSizes sizes(view, tiles.parts);
    const GroupNormBackward<T> call(k);
    const bool whole = view.channels % kCudaPack<T> == 0 && AllAligned(call.x, call.dy, call.dx);
    auto* const means = k.workspace<GroupMeans>();
    auto* const sums = reinterpret_cast<double*>(means + view.samples * view.groups);
    const GroupGradientSums<T> terms = {sizes, call};
    SNUG_RETURN_IF_ERROR(SumColumns<2>(k, tiles, terms, whole, sums));
    SNUG_RETURN_IF_ERROR(k.cuda()->Launch(GroupMeansKernel<T>, WarpForEachGroup(view), terms, sums, means));
    return SweepColumns<2>(k, view.inner, view.channels, GroupGradientSweep<T>{sizes, call, means}, whole,
                           view.samples);
  });
}

}  // namespace snug::core
