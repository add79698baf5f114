#include <algorithm>
#include <limits>
#include <type_traits>

#include "ops/cuda_numbers.h"
#include "ops/few_rows.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/rows.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/kit/vec_math.h"
#include "ops/loss/cuda_mean.h"
#include "ops/loss/losses_cuda.h"

namespace snug::core {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// What each row is compared with: its label, or else probabilities.
template <class T>
struct Targets {
  IntegerLabels labels;
  const T* probabilities;
};

// What the gradient is scaled by: dloss over the number of rows that count.
struct Scale {
  const double* counted;  // null: blocks count by themselves

  // All threads of a block call it, and all get the result.
  __device__ double Of(double dloss, const IntegerLabels& labels, int64_t rows, int64_t ignored) const {
    return dloss / (counted != nullptr ? *counted : CountRows(labels, rows, ignored));
  }
};

// Writes the gradient of a row, whose numbers `at` gives, pack by pack. dz may be where they are from.
template <class T, bool kSoft, class Deal, class At>
__device__ void WriteGradient(int64_t stride, const CrossEntropyNumbers& numbers, Accumulator<T> row_lse,
                              Accumulator<T> scale, const Targets<T>& targets, int64_t r, const At& at, T* dz) {
  using A = Accumulator<T>;
  const auto [smoothing, ignored, classes] = numbers;
  const A even = static_cast<A>(smoothing / static_cast<double>(classes));
  const A sharp = static_cast<A>(1 - smoothing);
  A total = 1;
  A factor = scale;
  int64_t label = -1;
  bool ignore = false;
  if constexpr (kSoft) {
    const DealtRow<T, Deal> target(targets.probabilities + r * stride, stride);
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
    label = targets.labels.At(r);
    ignore = label == ignored;
    if (!ignore && (label < 0 || label >= classes)) factor = static_cast<A>(kNan);
  }
  Deal::Each(stride, [&](int n, auto i) {
    const auto pack = at(n, i);
    A grads[Deal::kPack];
    [[maybe_unused]] CudaPack<T, Deal::kPack> target;
    if constexpr (kSoft) target = LoadPack<true, Deal::kPack>(targets.probabilities + r * stride + i, Deal::kPack);
    for (int j = 0; j < Deal::kPack; ++j) {
      const A softmax = DeviceExp(static_cast<A>(pack.values[j]) - row_lse);
      A wanted = i + j == label ? sharp : A(0);
      if constexpr (kSoft) wanted = sharp * static_cast<A>(target.values[j]);
      grads[j] = ignore || i + j >= classes ? A(0) : (softmax * total - wanted - even) * factor;
    }
    StorePack<true>(RoundPack<T>(grads), dz + i, Deal::kPack);
  });
}

// In double no second block fits.
template <class T>
constexpr int kBlocksAtATime = std::is_same_v<T, double> ? 1 : 2;

// Besides the rows' losses it gives either the log of each row's sum of exponentials, or, with kGrad, the gradient for
// `dloss`. dlogits may be logits. Two blocks have registers on a processor, so that one loads while the other adds.
template <class T, bool kSoft, bool kGrad, class Deal>
__global__ void __launch_bounds__(Deal::Team::kBlock, kBlocksAtATime<T>)
    CrossEntropyKernel(int64_t rows, int64_t stride, CrossEntropyNumbers numbers, const T* logits, Targets<T> targets,
                       Float32Port<T>* lse, double* losses, MeanOfRows<Float32Port<T>> mean, Scale scaled, double dloss,
                       T* dlogits) {
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  const auto [smoothing, ignored, classes] = numbers;
  A scale = 0;
  if constexpr (kGrad) scale = static_cast<A>(scaled.Of(dloss, mean.labels, rows, ignored));
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
        const auto target = LoadPack<true, Deal::kPack>(targets.probabilities + r * stride + i, Deal::kPack);
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
      const int64_t label = targets.labels.At(r);
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
      if constexpr (!kGrad) lse[r] = static_cast<S>(row_lse);
      losses[r] = loss;
    }
    if constexpr (kGrad) {
      Deal::Team::Sync();  // all have read the label's logit, which may be written over
      WriteGradient<T, kSoft, Deal>(
          stride, numbers, static_cast<A>(static_cast<S>(row_lse)), scale, targets, r,
          [&](int n, auto i) { return row.At(n, i); }, dlogits + r * stride);
    }
  }
  mean.TakeIfAlone(rows);
}

// dlogits may be logits.
template <class T, bool kSoft, class Deal>
__global__ void CrossEntropyGradKernel(int64_t rows, int64_t stride, CrossEntropyNumbers numbers, Scale scaled,
                                       const T* logits, Targets<T> targets, const Float32Port<T>* lse,
                                       const Float32Port<T>* dloss, T* dlogits) {
  using A = Accumulator<T>;
  const A scale = static_cast<A>(scaled.Of(static_cast<double>(*dloss), targets.labels, rows, numbers.ignored));
  for (int64_t r = Deal::Team::FirstRow(); r < rows; r += Deal::Team::RowStep()) {
    WriteGradient<T, kSoft, Deal>(
        stride, numbers, static_cast<A>(lse[r]), scale, targets, r,
        [&](int, auto i) { return LoadPack<true, Deal::kPack>(logits + r * stride + i, Deal::kPack); },
        dlogits + r * stride);
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

struct RowsOfLogits {
  explicit RowsOfLogits(const ValueType& logits)
      : count(logits.shape.Count(0, logits.shape.rank() - 1)), stride(logits.shape[logits.shape.rank() - 1]) {}
  int64_t count, stride;
};

// Returns input 1, which has labels, or else probabilities of type T.
template <class T>
Targets<T> TargetsOf(const KernelContext& k) {
  if (k.input_type(1).dtype == DTypeOf<T>::value) return {{nullptr, false}, k.input<T>(1)};
  return {LabelsOf(k, 1), nullptr};
}

// DealRows with rows that a few lanes do where those of one block then do all.
template <class T, class Launch>
absl::Status DealFewOrMany(const RowsOfLogits& rows, bool aligned, const Launch& launch) {
  static_assert(LaneTeam::kThreads == kThreadsOfNarrowRow);
  const auto few = [&]<int kPack>(std::integral_constant<int, kPack>) {
    return launch(RowDeal<LaneTeam, kPack, kPacksHeld>(), int64_t{1});
  };
  const auto is_few = [&](int64_t pack) {
    return CrossEntropyThreads(rows.count, rows.stride, pack) == kThreadsOfNarrowRow;
  };
  if constexpr (!std::is_same_v<T, double>) {
    constexpr int kPack = kCudaPack<T>;
    if (aligned && rows.stride % kPack == 0 && is_few(kPack)) return few(std::integral_constant<int, kPack>());
  }
  const bool packs = !std::is_same_v<T, double> && aligned && rows.stride % kCudaPack<T> == 0;
  if (!packs && is_few(1)) return few(std::integral_constant<int, 1>());
  return DealRows<T, true, LargeBlockTeam>(
      rows.count, rows.stride, aligned, [&]<class Deal>(Deal deal, int64_t blocks) {
        return launch(deal, FitOneBlock(rows.count, std::min(Deal::Team::kThreads, kCudaThreads)) ? 1 : blocks);
      });
}

// Sets `scaled`: counts the labels first where blocks do not.
template <class T>
absl::Status CountFirst(const KernelContext& k, const Targets<T>& targets, int64_t rows, int64_t ignored,
                        double* counted, Scale* scaled) {
  scaled->counted = nullptr;
  if (targets.probabilities != nullptr || CountsInBlocks(rows)) return absl::OkStatus();
  scaled->counted = counted;
  return k.cuda()->Launch(CountKernel, kOneBlock, rows, targets.labels, ignored, counted);
}

// Outputs that are null are not wanted: lse, or `finite` and dlogits.
template <class T>
struct CrossEntropyOutputs {
  Float32Port<T>* loss;
  Float32Port<T>* lse = nullptr;
  uint8_t* finite = nullptr;
  T* dlogits = nullptr;
};

template <class T, bool kGrad>
absl::Status LaunchCrossEntropy(const KernelContext& k, const CrossEntropyNumbers& numbers, double dloss,
                                const CrossEntropyOutputs<T>& outputs) {
  const RowsOfLogits rows(k.input_type(0));
  const T* logits = k.input<T>(0);
  const Targets<T> targets = TargetsOf<T>(k);
  auto* losses = k.workspace<double>();
  Scale scaled = {nullptr};
  if (kGrad) {
    SNUG_RETURN_IF_ERROR(CountFirst(k, targets, rows.count, numbers.ignored, losses + rows.count, &scaled));
  }
  const MeanOfRows<Float32Port<T>> mean = {losses, targets.labels, numbers.ignored, outputs.loss, outputs.finite};
  return DealFewOrMany<T>(rows, AllAligned(logits, targets.probabilities, outputs.dlogits),
                          [&]<class Deal>(Deal, int64_t blocks) -> absl::Status {
                            SNUG_RETURN_IF_ERROR(k.cuda()->Launch(
                                targets.probabilities != nullptr ? CrossEntropyKernel<T, true, kGrad, Deal>
                                                                 : CrossEntropyKernel<T, false, kGrad, Deal>,
                                {.blocks = blocks, .threads = Deal::Team::kBlock}, rows.count, rows.stride, numbers,
                                logits, targets, outputs.lse, losses, mean, scaled, dloss, outputs.dlogits));
                            return TakeMean(k, blocks, rows.count, mean);
                          });
}

}  // namespace

absl::Status PrepareCrossEntropyGradCuda(PrepareContext& c) {
  const bool labels = !IsFloating(c.types().input(1).dtype);
  const int64_t rows = RowsOfLogits(c.types().input(0)).count;
  c.SetWorkspaceBytes(labels && !CountsInBlocks(rows) ? sizeof(double) : 0);
  return absl::OkStatus();
}

absl::Status PrepareCrossEntropyWithGradCuda(PrepareContext& c) {
  const int64_t rows = RowsOfLogits(c.types().input(0)).count;
  const bool counts_first = !IsFloating(c.types().input(1).dtype) && !CountsInBlocks(rows);
  c.SetWorkspaceBytes((rows + (counts_first ? 1 : 0)) * static_cast<int64_t>(sizeof(double)));
  return absl::OkStatus();
}

absl::Status CrossEntropyCuda(const KernelContext& k, const CrossEntropyNumbers& numbers) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    return LaunchCrossEntropy<T, false>(k, numbers, /*dloss=*/0, {.loss = k.output<S>(0), .lse = k.output<S>(1)});
  });
}

absl::Status CrossEntropyWithGradCuda(const KernelContext& k, const CrossEntropyNumbers& numbers, double dloss) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return LaunchCrossEntropy<T, true>(
        k, numbers, dloss,
        {.loss = k.output<Float32Port<T>>(0), .finite = k.output<uint8_t>(1), .dlogits = k.output<T>(2)});
  });
}

absl::Status CrossEntropyGradCuda(const KernelContext& k, const CrossEntropyNumbers& numbers) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const RowsOfLogits rows(k.input_type(0));
    const T* logits = k.input<T>(0);
    const Targets<T> targets = TargetsOf<T>(k);
    T* dlogits = k.output<T>(0);
    Scale scaled = {nullptr};
    SNUG_RETURN_IF_ERROR(CountFirst(k, targets, rows.count, numbers.ignored, k.workspace<double>(), &scaled));
    return DealRows<T, false>(rows.count, rows.stride, AllAligned(logits, targets.probabilities, dlogits),
                              [&]<class Deal>(Deal, int64_t blocks) {
                                return k.cuda()->Launch(
                                    targets.probabilities != nullptr ? CrossEntropyGradKernel<T, true, Deal>
                                                                     : CrossEntropyGradKernel<T, false, Deal>,
                                    {.blocks = blocks, .threads = kCudaThreads}, rows.count, rows.stride, numbers,
                                    scaled, logits, targets, k.input<S>(2), k.input<S>(3), dlogits);
                              });
  });
}

absl::Status CrossEntropyTargetGradCuda(const KernelContext& k, const CrossEntropyNumbers& numbers) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const RowsOfLogits rows(k.input_type(0));
    const int64_t n = rows.count * rows.stride;
    return k.cuda()->Launch(TargetGradKernel<T>, ShapeFor(n), n, rows.count, rows.stride, CudaDivisor(rows.stride, n),
                            numbers, k.input<T>(0), k.input<S>(1), k.input<S>(2), k.output<T>(0));
  });
}

}  // namespace snug::core
