#include <algorithm>
#include <limits>
#include <type_traits>

#include "ops/kit/cuda_axes.h"
#include "ops/kit/cuda_kernel.h"
#include "ops/kit/cuda_rows.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/kit/vec_math.h"
#include "ops/loss/losses_cuda.h"

namespace snug::core {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Counts the labels that are not the ignored one. It runs as one block.
template <class Label>
__device__ double CountLabels(const Label* labels, int64_t rows, int64_t ignored) {
  return BlockReduce<SumOp>(ReduceInSteps<SumOp, double>(threadIdx.x, rows, blockDim.x, [&](int64_t r) {
    return static_cast<int64_t>(labels[r]) == ignored ? 0.0 : 1.0;
  }));
}

template <class Label>
__global__ void CountKernel(int64_t rows, int64_t ignored, const Label* labels, double* count) {
  const double total = CountLabels(labels, rows, ignored);
  if (threadIdx.x == 0) *count = total;
}

// Computes the mean of the rows' numbers over the rows that count; if `labels` is null, all do. It runs as one block.
template <class S, class Label>
__global__ void MeanKernel(int64_t rows, int64_t ignored, const double* values, const Label* labels, S* mean) {
  const double total = BlockReduce<SumOp>(
      ReduceInSteps<SumOp, double>(threadIdx.x, rows, blockDim.x, [&](int64_t r) { return values[r]; }));
  const double count = labels == nullptr ? static_cast<double>(rows) : CountLabels(labels, rows, ignored);
  if (threadIdx.x == 0) *mean = static_cast<S>(total / count);
}

// Labels are integers of 4 or 8 bytes, or probabilities of a type T.
struct IntegerLabels {
  const void* values;
  bool wide;
  __device__ int64_t At(int64_t r) const {
    return wide ? static_cast<const int64_t*>(values)[r] : static_cast<const int32_t*>(values)[r];
  }
};

// Reads the logits once.
template <class T, bool kSoft, class Deal>
__global__ void CrossEntropyKernel(int64_t rows, int64_t stride, CrossEntropyNumbers numbers, const T* logits,
                                   IntegerLabels labels, const T* targets, Float32Port<T>* lse, double* losses) {
  using A = Accumulator<T>;
  const auto [smoothing, ignored, classes] = numbers;
  for (int64_t r = Deal::Team::FirstRow(); r < rows; r += Deal::Team::RowStep()) {
    const DealtRow<T, Deal> row(logits + r * stride, stride, classes);
    double plain = 0;     // the sum of the logits
    double expected = 0;  // the sum of target times logit
    double given = 0;     // the sum of the targets
    const ExpSum<A> found = SumExponentials<Deal>(row, stride, [&](int, auto i, const auto& pack) {
      if (smoothing > 0) {
        A of_pack = 0;
        for (int j = 0; j < Deal::kPack; ++j) {
          if (i + j < classes) of_pack += static_cast<A>(pack.values[j]);
        }
        plain += static_cast<double>(of_pack);
      }
      if constexpr (kSoft) {
        const auto target = LoadPack<true, Deal::kPack>(targets + r * stride + i, Deal::kPack);
        A of_given = 0;
        A of_expected = 0;
        for (int j = 0; j < Deal::kPack; ++j) {
          if (i + j >= classes) continue;
          of_given += static_cast<A>(target.values[j]);
          of_expected += static_cast<A>(target.values[j]) * static_cast<A>(pack.values[j]);
        }
        given += static_cast<double>(of_given);
        expected += static_cast<double>(of_expected);
      }
    });
    const double row_lse = static_cast<double>(found.largest) + log(found.sum);
    double loss = 0;
    bool counts = true;
    if constexpr (kSoft) {
      given = Deal::Team::template Combine<SumOp>(given);
      expected = Deal::Team::template Combine<SumOp>(expected);
      loss = (1 - smoothing) * (row_lse * given - expected);
    } else {
      const int64_t label = labels.At(r);
      counts = label != ignored;
      if (counts) {
        loss = label < 0 || label >= classes
                   ? kNan
                   : (1 - smoothing) * (row_lse - static_cast<double>(static_cast<A>(row.row[label])));
      }
    }
    if (smoothing > 0) {
      plain = Deal::Team::template Combine<SumOp>(plain);
      if (counts) loss += smoothing * (row_lse - plain / static_cast<double>(classes));
    }
    if (Deal::Team::First() == 0) {
      lse[r] = static_cast<Float32Port<T>>(row_lse);
      losses[r] = loss;
    }
  }
}

// dlogits may be logits. `counted` is the number of rows that count; null: all do.
template <class T, bool kSoft, class Deal>
__global__ void CrossEntropyGradKernel(int64_t rows, int64_t stride, CrossEntropyNumbers numbers, const double* counted,
                                       const T* logits, IntegerLabels labels, const T* targets,
                                       const Float32Port<T>* lse, const Float32Port<T>* dloss, T* dlogits) {
  using A = Accumulator<T>;
  const auto [smoothing, ignored, classes] = numbers;
  const double count = counted == nullptr ? static_cast<double>(rows) : *counted;
  const A scale = static_cast<A>(static_cast<double>(*dloss) / count);
  const A even = static_cast<A>(smoothing / static_cast<double>(classes));
  const A sharp = static_cast<A>(1 - smoothing);
  for (int64_t r = Deal::Team::FirstRow(); r < rows; r += Deal::Team::RowStep()) {
    const T* z = logits + r * stride;
    const A row_lse = static_cast<A>(lse[r]);
    A total = 1;
    A factor = scale;
    int64_t label = -1;
    bool ignore = false;
    if constexpr (kSoft) {
      const DealtRow<T, Deal> target(targets + r * stride, stride);
      const double given = Deal::template Sum<A>(stride, [&](int n, auto i) {
        const auto pack = target.At(n, i);
        A of_pack = 0;
        for (int j = 0; j < Deal::kPack; ++j) {
          if (i + j < classes) of_pack += static_cast<A>(pack.values[j]);
        }
        return of_pack;
      });
      total = static_cast<A>((1 - smoothing) * given + smoothing);
    } else {
      label = labels.At(r);
      ignore = label == ignored;
      if (!ignore && (label < 0 || label >= classes)) factor = static_cast<A>(kNan);
    }
    Deal::Each(stride, [&](int, auto i) {
      auto pack = LoadPack<true, Deal::kPack>(z + i, Deal::kPack);
      CudaPack<T, Deal::kPack> target;
      if constexpr (kSoft) target = LoadPack<true, Deal::kPack>(targets + r * stride + i, Deal::kPack);
      for (int j = 0; j < Deal::kPack; ++j) {
        const A softmax = Exp(static_cast<A>(pack.values[j]) - row_lse);
        A wanted = i + j == label ? sharp : A(0);
        if constexpr (kSoft) wanted = sharp * static_cast<A>(target.values[j]);
        pack.values[j] = static_cast<T>(ignore || i + j >= classes ? A(0) : (softmax * total - wanted - even) * factor);
      }
      StorePack<true>(pack, dlogits + r * stride + i, Deal::kPack);
    });
  }
}

// dtarget may be logits.
template <class T>
__global__ void TargetGradKernel(int64_t n, int64_t rows, int64_t stride, CudaDivisor by_stride,
                                 CrossEntropyNumbers numbers, const T* logits, const Float32Port<T>* lse,
                                 const Float32Port<T>* dloss, T* dtarget) {
  using A = Accumulator<T>;
  const A scale = static_cast<A>(static_cast<double>(*dloss) * (1 - numbers.smoothing) / static_cast<double>(rows));
  SNUG_CUDA_FOR(i, n) {
    const int64_t row = by_stride.Divide(i);
    const A value = (static_cast<A>(lse[row]) - static_cast<A>(logits[i])) * scale;
    dtarget[i] = static_cast<T>(i - row * stride < numbers.classes ? value : A(0));
  }
}

template <class T, class Label>
__global__ void NllKernel(int64_t rows, int64_t classes, int64_t ignored, const T* x, const Label* labels,
                          double* losses) {
  SNUG_CUDA_FOR(r, rows) {
    const int64_t label = labels[r];
    losses[r] = label == ignored ? 0
                : label < 0 || label >= classes
                    ? kNan
                    : -static_cast<double>(static_cast<Accumulator<T>>(x[r * classes + label]));
  }
}

template <class T, class Label>
__global__ void NllGradKernel(int64_t n, int64_t classes, CudaDivisor by_classes, int64_t ignored,
                              const double* counted, const Label* labels, const Float32Port<T>* dloss, T* dx) {
  const T value = static_cast<T>(static_cast<Float32Port<T>>(-static_cast<double>(*dloss) / *counted));
  SNUG_CUDA_FOR(i, n) {
    const int64_t row = by_classes.Divide(i);
    const int64_t label = labels[row];
    const bool wrong = label != ignored && (label < 0 || label >= classes);
    const bool own = label != ignored && label == i - row * classes;
    dx[i] = wrong ? static_cast<T>(static_cast<Accumulator<T>>(kNan)) : own ? value : static_cast<T>(Accumulator<T>(0));
  }
}

template <class T, class Label, class Team>
__global__ void TopKKernel(CudaRows rows, int64_t most, int64_t ignored, const T* scores, const Label* labels,
                           double* right) {
  using A = Accumulator<T>;
  const int64_t classes = rows.width;
  for (int64_t r = Team::FirstRow(); r < rows.count(); r += Team::RowStep()) {
    const T* row = scores + r * classes;
    const int64_t label = labels[r];
    const bool wrong = label != ignored && (label < 0 || label >= classes);
    const A own = label == ignored || wrong ? A(0) : static_cast<A>(row[label]);
    const double above =
        TeamReduce<Team, SumOp, double>(classes, [&](int64_t i) {  // how many classes rank before the label
          const A score = static_cast<A>(row[i]);
          return !(score <= own) || (i < label && score == own) ? 1.0 : 0.0;
        });
    if (Team::First() != 0) continue;
    right[r] = label == ignored ? 0 : wrong ? kNan : own == own && above < static_cast<double>(most) ? 1 : 0;
  }
}

int64_t ErrorBlocks(int64_t n) { return std::clamp<int64_t>(cuda::CountBlocks(n, 1 << 13), 1, 1 << 10); }

template <class T>
__global__ void SquaredErrorKernel(int64_t n, const T* x, const T* target, double* sums) {
  using A = Accumulator<T>;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const double sum = BlockReduce<SumOp>(
      ReduceInSteps<SumOp, A>(first, n, static_cast<int64_t>(gridDim.x) * blockDim.x, [&](int64_t i) {
        const A d = static_cast<A>(x[i]) - static_cast<A>(target[i]);
        return d * d;
      }));
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
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

// Returns input 1 as integers, or else as probabilities of type T.
IntegerLabels LabelsOf(const KernelContext& k) { return {k.input<void>(1), k.input_type(1).dtype == DType::kInt64}; }
template <class T>
const T* TargetsOf(const KernelContext& k) {
  return k.input_type(1).dtype == DTypeOf<T>::value ? k.input<T>(1) : nullptr;
}

// The launch of a kernel that runs as one block.
constexpr cuda::LaunchShape kOneBlock = {.threads = kCudaThreads};

}  // namespace

absl::Status PrepareRowsCuda(PrepareContext& c) {
  c.SetWorkspaceBytes(RowsOf(c.types().input(0)).count() * static_cast<int64_t>(sizeof(double)));
  return absl::OkStatus();
}

absl::Status PrepareCountCuda(PrepareContext& c) {
  c.SetWorkspaceBytes(sizeof(double));
  return absl::OkStatus();
}

absl::Status PrepareSquaredErrorCuda(PrepareContext& c) {
  c.SetWorkspaceBytes(ErrorBlocks(c.types().input(0).num_elements()) * static_cast<int64_t>(sizeof(double)));
  return absl::OkStatus();
}

absl::Status CrossEntropyCuda(const KernelContext& k, const CrossEntropyNumbers& numbers) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const CudaRows rows = RowsOf(k.input_type(0));
    const T* logits = k.input<T>(0);
    const T* targets = TargetsOf<T>(k);
    auto* losses = k.workspace<double>();
    SNUG_RETURN_IF_ERROR((DealRows<T, true>(
        rows.outer, rows.width, IsAligned(logits) && IsAligned(targets), [&]<class Deal>(Deal, int64_t blocks) {
          return k.cuda()->Launch(
              targets != nullptr ? CrossEntropyKernel<T, true, Deal> : CrossEntropyKernel<T, false, Deal>,
              {.blocks = blocks, .threads = kCudaThreads}, rows.outer, rows.width, numbers, logits, LabelsOf(k),
              targets, k.output<S>(1), losses);
        })));
    const auto mean = [&]<class Label>(const Label* labels) {
      return k.cuda()->Launch(MeanKernel<S, Label>, kOneBlock, rows.count(), numbers.ignored, losses, labels,
                              k.output<S>(0));
    };
    if (targets != nullptr) return mean(static_cast<const int32_t*>(nullptr));
    return DispatchInteger(k.input_type(1).dtype, [&](auto integer) { return mean(k.input<decltype(integer)>(1)); });
  });
}

absl::Status CrossEntropyGradCuda(const KernelContext& k, const CrossEntropyNumbers& numbers) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const CudaRows rows = RowsOf(k.input_type(0));
    const T* logits = k.input<T>(0);
    const T* targets = TargetsOf<T>(k);
    T* dlogits = k.output<T>(0);
    double* counted = nullptr;
    if (targets == nullptr) {
      counted = k.workspace<double>();
      SNUG_RETURN_IF_ERROR(DispatchInteger(k.input_type(1).dtype, [&](auto integer) {
        using Label = decltype(integer);
        return k.cuda()->Launch(CountKernel<Label>, kOneBlock, rows.count(), numbers.ignored, k.input<Label>(1),
                                counted);
      }));
    }
    return DealRows<T, false>(rows.outer, rows.width, IsAligned(logits) && IsAligned(targets) && IsAligned(dlogits),
                              [&]<class Deal>(Deal, int64_t blocks) {
                                return k.cuda()->Launch(targets != nullptr ? CrossEntropyGradKernel<T, true, Deal>
                                                                           : CrossEntropyGradKernel<T, false, Deal>,
                                                        {.blocks = blocks, .threads = kCudaThreads}, rows.outer,
                                                        rows.width, numbers, counted, logits, LabelsOf(k), targets,
                                                        k.input<S>(2), k.input<S>(3), dlogits);
                              });
  });
}

absl::Status CrossEntropyTargetGradCuda(const KernelContext& k, const CrossEntropyNumbers& numbers) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const CudaRows rows = RowsOf(k.input_type(0));
    const int64_t n = rows.count() * rows.width;
    return k.cuda()->Launch(TargetGradKernel<T>, ShapeFor(n), n, rows.count(), rows.width, CudaDivisor(rows.width, n),
                            numbers, k.input<T>(0), k.input<S>(1), k.input<S>(2), k.output<T>(0));
  });
}

absl::Status NllLossCuda(const KernelContext& k, int64_t ignored) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    return DispatchInteger(k.input_type(1).dtype, [&](auto integer) -> absl::Status {
      using T = decltype(zero);
      using Label = decltype(integer);
      const CudaRows rows = RowsOf(k.input_type(0));
      auto* losses = k.workspace<double>();
      SNUG_RETURN_IF_ERROR(k.cuda()->Launch(NllKernel<T, Label>, ShapeFor(rows.count()), rows.count(), rows.width,
                                            ignored, k.input<T>(0), k.input<Label>(1), losses));
      return k.cuda()->Launch(MeanKernel<Float32Port<T>, Label>, kOneBlock, rows.count(), ignored, losses,
                              k.input<Label>(1), k.output<Float32Port<T>>(0));
    });
  });
}

absl::Status NllLossGradCuda(const KernelContext& k, int64_t classes, int64_t ignored) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return DispatchInteger(k.input_type(0).dtype, [&](auto integer) -> absl::Status {
      using T = decltype(zero);
      using Label = decltype(integer);
      const int64_t n = k.output_type(0).num_elements();
      auto* counted = k.workspace<double>();
      SNUG_RETURN_IF_ERROR(k.cuda()->Launch(CountKernel<Label>, kOneBlock, k.input_type(0).num_elements(), ignored,
                                            k.input<Label>(0), counted));
      return k.cuda()->Launch(NllGradKernel<T, Label>, ShapeFor(n), n, classes, CudaDivisor(classes, n), ignored,
                              counted, k.input<Label>(0), k.input<Float32Port<T>>(1), k.output<T>(0));
    });
  });
}

absl::Status TopKCuda(const KernelContext& k, int64_t most, int64_t ignored) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    return DispatchInteger(k.input_type(1).dtype, [&](auto integer) -> absl::Status {
      using T = decltype(zero);
      using Label = decltype(integer);
      const CudaRows rows = RowsOf(k.input_type(0));
      auto* right = k.workspace<double>();
      SNUG_RETURN_IF_ERROR(LaunchRows(k, rows, TopKKernel<T, Label, ThreadTeam>, TopKKernel<T, Label, BlockTeam>, rows,
                                      most, ignored, k.input<T>(0), k.input<Label>(1), right));
      return k.cuda()->Launch(MeanKernel<Float32Port<T>, Label>, kOneBlock, rows.count(), ignored, right,
                              k.input<Label>(1), k.output<Float32Port<T>>(0));
    });
  });
}

absl::Status SquaredErrorCuda(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const int64_t n = k.input_type(0).num_elements();
    auto* sums = k.workspace<double>();
    SNUG_RETURN_IF_ERROR(k.cuda()->Launch(SquaredErrorKernel<T>, {.blocks = ErrorBlocks(n), .threads = kCudaThreads}, n,
                                          k.input<T>(0), k.input<T>(1), sums));
    return k.cuda()->Launch(MeanOfSumsKernel<S>, kOneBlock, ErrorBlocks(n), n, sums, k.output<S>(0));
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
