#include <algorithm>

#include "ops/kernels/reduce/cuda.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/columns.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/dispatch.h"
#include "ops/linear/bias_add_cuda.h"

namespace snug::core {
namespace {

// x lies as [rows, channels]. y may be x.
template <class Type>
struct AddToColumns {
  using T = Type;
  using A = Accumulator<T>;
  const T* x;
  const T* bias;
  T* y;

  template <int kPack>
  using Row = CudaPack<T, kPack>;
  template <int kPack>
  struct Columns {
    A bias[kPack];
  };
  template <int kPack>
  __device__ Columns<kPack> ColumnsOfBlock(const ColumnPlace<kPack>& place) const {
    Columns<kPack> columns;
    for (int j = 0; j < kPack; ++j) columns.bias[j] = j < place.count ? static_cast<A>(bias[place.column + j]) : A(0);
    return columns;
  }
  template <bool kWhole, int kPack>
  __device__ Row<kPack> Load(int64_t, int64_t at, int count) const {
    return LoadPack<kWhole, kPack>(x + at, count);
  }
  template <bool kWhole, int kPack, class Sums>
  __device__ void Use(const Columns<kPack>& columns, const Row<kPack>& row, int64_t at, int count, Sums&) const {
    Row<kPack> sum;
    for (int j = 0; j < kPack; ++j) sum.values[j] = static_cast<T>(static_cast<A>(row.values[j]) + columns.bias[j]);
    StorePack<kWhole>(sum, y + at, count);
  }
};

// x lies in runs of numbers, of one channel after the other. y may be x.
template <class T>
__global__ void AddToRunsKernel(int64_t n, CudaAxes channel_of, const T* x, const T* bias, T* y) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) { y[i] = static_cast<T>(static_cast<A>(x[i]) + static_cast<A>(bias[channel_of.Offset(i)])); }
}

template <class Type>
struct SumOfColumns {
  using T = Type;
  using A = Accumulator<T>;
  static constexpr int kSums = 1;
  const T* dy;
  T* db;

  template <int kPack>
  using Row = CudaPack<T, kPack>;
  template <int kPack>
  struct Columns {};
  template <int kPack>
  __device__ Columns<kPack> ColumnsOfBlock(const ColumnPlace<kPack>&) const {
    return {};
  }
  template <bool kWhole, int kPack>
  __device__ Row<kPack> Load(int64_t, int64_t at, int count) const {
    return LoadPack<kWhole, kPack>(dy + at, count);
  }
  template <bool kWhole, int kPack, class Sums>
  __device__ void Use(const Columns<kPack>&, const Row<kPack>& row, int64_t, int, Sums& sums) const {
    for (int j = 0; j < kPack; ++j) sums[0][j] += static_cast<A>(row.values[j]);
  }
  __device__ void Take(int64_t column, const double (&totals)[1]) const {
    db[column] = static_cast<T>(static_cast<A>(totals[0]));
  }
};

}  // namespace

absl::Status BiasAddCuda(const KernelContext& k, int64_t channels, int64_t inner) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.output_type(0).num_elements();
    const T* x = k.input<T>(0);
    const T* bias = k.input<T>(1);
    T* y = k.output<T>(0);
    if (inner != 1) {
      Axes channel_of;
      channel_of.Append(n / std::max<int64_t>(channels * inner, 1), 0);
      channel_of.Append(channels, 1);
      channel_of.Append(inner, 0);
      return k.cuda()->Launch(AddToRunsKernel<T>, ShapeFor(n), n, channel_of, x, bias, y);
    }
    return SweepColumns<4>(k, n / std::max<int64_t>(channels, 1), channels, AddToColumns<T>{x, bias, y},
                           channels % kCudaPack<T> == 0 && IsAligned(x) && IsAligned(y));
  });
}

int64_t BiasGradCudaWorkspace(const ReducePlan& plan, DType dtype, int64_t rows, int64_t channels, int64_t inner) {
  return inner == 1 ? ColumnTiles(rows, channels).WorkspaceBytes(1) : CudaReduceSpread(plan, dtype).WorkspaceBytes();
}

absl::Status BiasGradCuda(const KernelContext& k, const ReducePlan& plan, int64_t rows, int64_t channels,
                          int64_t inner) {
  if (inner != 1) return ReduceCuda<SumOp>(k, plan);
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* dy = k.input<T>(0);
    return SumColumns<4>(k, ColumnTiles(rows, channels), SumOfColumns<T>{dy, k.output<T>(0)},
                         channels % kCudaPack<T> == 0 && IsAligned(dy), k.workspace<double>());
  });
}

}  // namespace snug::core
