#include <algorithm>
#include <limits>

#include "ops/few_rows.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/rows.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/loss/cuda_mean.h"
#include "ops/loss/losses_cuda.h"

namespace snug::core {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class T>
__global__ void NllKernel(int64_t rows, int64_t classes, const T* x, double* losses, MeanOfRows<Float32Port<T>> mean) {
  SNUG_CUDA_FOR(r, rows) {
    const int64_t label = mean.labels.At(r);
    losses[r] = label == mean.ignored ? 0
                : label < 0 || label >= classes
                    ? kNan
                    : -static_cast<double>(static_cast<Accumulator<T>>(x[r * classes + label]));
  }
  mean.TakeIfAlone(rows);
}

// `counted` is the number of rows that count; null: blocks count by themselves.
template <class T>
__global__ void NllGradKernel(int64_t n, int64_t rows, int64_t classes, CudaDivisor by_classes, int64_t ignored,
                              const double* counted, IntegerLabels labels, const Float32Port<T>* dloss, T* dx) {
  const double count = counted != nullptr ? *counted : CountRows(labels, rows, ignored);
  const T value = static_cast<T>(static_cast<Float32Port<T>>(-static_cast<double>(*dloss) / count));
  SNUG_CUDA_FOR(i, n) {
    const int64_t row = by_classes.Divide(i);
    const int64_t label = labels.At(row);
    const bool wrong = label != ignored && (label < 0 || label >= classes);
    const bool own = label != ignored && label == i - row * classes;
    dx[i] = wrong ? static_cast<T>(static_cast<Accumulator<T>>(kNan)) : own ? value : static_cast<T>(Accumulator<T>(0));
  }
}

template <class T, class Team>
__global__ void TopKKernel(CudaRows rows, int64_t most, const T* scores, double* right,
                           MeanOfRows<Float32Port<T>> mean) {
  using A = Accumulator<T>;
  const int64_t classes = rows.width;
  for (int64_t r = Team::FirstRow(); r < rows.count(); r += Team::RowStep()) {
    const T* row = scores + r * classes;
    const int64_t label = mean.labels.At(r);
    const bool ignore = label == mean.ignored;
    const bool wrong = !ignore && (label < 0 || label >= classes);
    const A own = ignore || wrong ? A(0) : static_cast<A>(row[label]);
    const double above =
        TeamReduce<Team, SumOp, double>(classes, [&](int64_t i) {  // how many classes rank before the label
          const A score = static_cast<A>(row[i]);
          return !(score <= own) || (i < label && score == own) ? 1.0 : 0.0;
        });
    if (Team::First() != 0) continue;
    right[r] = ignore ? 0 : wrong ? kNan : own == own && above < static_cast<double>(most) ? 1 : 0;
  }
  mean.TakeIfAlone(rows.count());
}

template <class T>
__global__ void SquaredErrorKernel(int64_t n, const T* x, const T* target, double* sums, Float32Port<T>* mean) {
  using A = Accumulator<T>;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const double sum = BlockReduce<SumOp>(
      ReduceInSteps<SumOp, A>(first, n, static_cast<int64_t>(gridDim.x) * blockDim.x, [&](int64_t i) {
        const A d = static_cast<A>(x[i]) - static_cast<A>(target[i]);
        return d * d;
      }));
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) {
    *mean = static_cast<Float32Port<T>>(sum / static_cast<double>(n));
  } else {
    sums[blockIdx.x] = sum;
  }
}

// dx may be x or target.
template <class T>
__global__ void SquaredErrorGradKernel(int64_t n, const T* x, const T* target, const Float32Port<T>* dloss, T* dx) {
  using A = Accumulator<T>;
  const A scale = static_cast<A>(2 * static_cast<double>(*dloss) / static_cast<double>(n));
  SNUG_CUDA_FOR(i, n) { dx[i] = static_cast<T>((static_cast<A>(x[i]) - static_cast<A>(target[i])) * scale); }
}

template <class S>
__global__ void MeanOfSumsKernel(int64_t blocks, int64_t n, const double* sums, S* mean) {
  const double total = BlockReduce<SumOp>(
      ReduceInSteps<SumOp, double>(threadIdx.x, blocks, blockDim.x, [&](int64_t i) { return sums[i]; }));
  if (threadIdx.x == 0) *mean = static_cast<S>(total / static_cast<double>(n));
}

CudaRows RowsOf(const ValueType& x) {
  const int rank = x.shape.rank();
  return {.outer = x.shape.Count(0, rank - 1), .width = x.shape[rank - 1]};
}

}  // namespace

absl::Status PrepareRowsCuda(PrepareContext& c) {
  c.SetWorkspaceBytes(RowsOf(c.types().input(0)).count() * static_cast<int64_t>(sizeof(double)));
  return absl::OkStatus();
}

absl::Status PrepareNllGradCuda(PrepareContext& c) {
  c.SetWorkspaceBytes(CountsInBlocks(c.types().input(0).num_elements()) ? 0 : sizeof(double));
  return absl::OkStatus();
}

absl::Status PrepareSquaredErrorCuda(PrepareContext& c) {
  c.SetWorkspaceBytes(SquaredErrorBlocks(c.types().input(0).num_elements()) * static_cast<int64_t>(sizeof(double)));
  return absl::OkStatus();
}

absl::Status NllLossCuda(const KernelContext& k, int64_t ignored) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const CudaRows rows = RowsOf(k.input_type(0));
    auto* losses = k.workspace<double>();
    cuda::LaunchShape shape = ShapeFor(rows.count());
    if (FitOneBlock(rows.count(), /*threads_of_row=*/1)) shape.blocks = 1;
    const MeanOfRows<S> mean = {losses, LabelsOf(k, 1), ignored, k.output<S>(0)};
    SNUG_RETURN_IF_ERROR(k.cuda()->Launch(NllKernel<T>, shape, rows.count(), rows.width, k.input<T>(0), losses, mean));
    return TakeMean(k, shape.blocks, rows.count(), mean);
  });
}

absl::Status NllLossGradCuda(const KernelContext& k, int64_t classes, int64_t ignored) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    const int64_t n = k.output_type(0).num_elements();
    const int64_t rows = k.input_type(0).num_elements();
    const IntegerLabels labels = LabelsOf(k, 0);
    double* counted = nullptr;
    if (!CountsInBlocks(rows)) {
      counted = k.workspace<double>();
      SNUG_RETURN_IF_ERROR(k.cuda()->Launch(CountKernel, kOneBlock, rows, labels, ignored, counted));
    }
    return k.cuda()->Launch(NllGradKernel<T>, ShapeFor(n), n, rows, classes, CudaDivisor(classes, n), ignored, counted,
                            labels, k.input<Float32Port<T>>(1), k.output<T>(0));
  });
}

absl::Status TopKCuda(const KernelContext& k, int64_t most, int64_t ignored) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const CudaRows rows = RowsOf(k.input_type(0));
    auto* right = k.workspace<double>();
    const int64_t threads = ScoreThreads(rows.width);
    cuda::LaunchShape shape = {.blocks = std::min<int64_t>(rows.count(), 1 << 16), .threads = kCudaThreads};
    if (threads == 1) shape = ShapeFor(rows.count());
    if (FitOneBlock(rows.count(), threads)) shape.blocks = 1;
    const MeanOfRows<S> mean = {right, LabelsOf(k, 1), ignored, k.output<S>(0)};
    SNUG_RETURN_IF_ERROR(k.cuda()->Launch(threads == 1 ? TopKKernel<T, ThreadTeam> : TopKKernel<T, BlockTeam>, shape,
                                          rows, most, k.input<T>(0), right, mean));
    return TakeMean(k, shape.blocks, rows.count(), mean);
  });
}

absl::Status SquaredErrorCuda(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const int64_t n = k.input_type(0).num_elements();
    const int64_t blocks = SquaredErrorBlocks(n);
    auto* sums = k.workspace<double>();
    SNUG_RETURN_IF_ERROR(k.cuda()->Launch(SquaredErrorKernel<T>, {.blocks = blocks, .threads = kCudaThreads}, n,
                                          k.input<T>(0), k.input<T>(1), sums, k.output<S>(0)));
    if (blocks == 1) return absl::OkStatus();
    return k.cuda()->Launch(MeanOfSumsKernel<S>, kOneBlock, blocks, n, sums, k.output<S>(0));
  });
}

absl::Status SquaredErrorGradCuda(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.input_type(0).num_elements();
    return k.cuda()->Launch(SquaredErrorGradKernel<T>, ShapeFor(n), n, k.input<T>(0), k.input<T>(1),
                            k.input<Float32Port<T>>(2), k.output<T>(0));
  });
}

}  // namespace snug::core
