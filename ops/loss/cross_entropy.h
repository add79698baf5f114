// What softmax_cross_entropy, its gradient, and both at once have in common: what they take, and the plain kernels.
#pragma once

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"
#include "ops/kit/vec_math.h"
#include "ops/loss/labels.h"
#include "ops/loss/losses_cuda.h"
#include "ops/nn/row_tile.h"

namespace snug::proto {
class SoftmaxCrossEntropy;
}

namespace snug::core::cross_entropy {

using Numbers = CrossEntropyNumbers;
// Without the option `classes` these are all that the logits have.
Numbers NumbersOf(const proto::SoftmaxCrossEntropy& options, const ValueType& logits);  // softmax_cross_entropy.cc

constexpr int64_t kBlock = 256;
constexpr int64_t kChunk = 1 << 14;  // elements in a piece of work

// Entries from one row to the next: the classes, and what pads them.
inline int64_t Stride(const ValueType& logits) { return logits.shape[logits.shape.rank() - 1]; }
inline int64_t Rows(const ValueType& logits) { return logits.shape.Count(0, logits.shape.rank() - 1); }
inline int64_t RowsPerChunk(int64_t classes) { return std::max<int64_t>(1, kChunk / std::max<int64_t>(1, classes)); }

// Checks inputs 0 and 1, which are logits and labels (or probabilities), and the options.
inline absl::Status CheckInputs(const InferContext& c, const Numbers& options) {
  const double smoothing = options.smoothing;
  if (!(smoothing >= 0 && smoothing <= 1)) {
    return c.OptionError("label_smoothing", absl::StrCat("expected 0 to 1, found ", smoothing));
  }
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, kMaxRank));
  const ValueType& logits = c.input(0);
  const DType labels = c.input(1).dtype;
  if (Stride(logits) < 1) return c.InputError(0, "expected at least one class along the last axis");
  const int64_t classes = options.classes;
  if (classes < 1 || classes > Stride(logits)) {
    return c.OptionError("classes", absl::StrCat("expected 1 to ", Stride(logits), ", found ", classes));
  }
  if (labels == DType::kInt32 || labels == DType::kInt64) {
    return c.CheckShape(1, logits.shape.Without(logits.shape.rank() - 1));
  }
  if (labels != logits.dtype) {
    return c.InputError(1, absl::StrCat("expected integers (int32 or int64), or probabilities in ", Name(logits.dtype),
                                        " like the logits; found ", Name(labels)));
  }
  return c.CheckShape(1, logits.shape);
}

// Calls fn(labels) with integer labels, or with probabilities of type T.
template <class T, class Fn>
absl::Status DispatchTarget(const KernelContext& k, Fn&& fn) {
  const DType dtype = k.input_type(1).dtype;
  if (dtype == DTypeOf<T>::value) return fn(k.input<T>(1));
  return DispatchInteger(dtype, [&](auto zero) { return fn(k.input<decltype(zero)>(1)); });
}

// What the rows' kernels read and write. Short rows are done as columns of a tile.
template <class T, class Label>
struct Call {
  using S = Float32Port<T>;
  static constexpr bool kSoft = std::is_same_v<T, Label>;  // probabilities, not classes

  Call(const KernelContext& k, const Numbers& options, const Label* all_labels)
      : logits(k.input<T>(0)),
        labels(all_labels),
        rows(Rows(k.input_type(0))),
        classes(options.classes),
        stride(Stride(k.input_type(0))),
        smoothing(options.smoothing),
        ignored(options.ignored) {}
  // For rows that lie elsewhere; nothing pads their classes.
  Call(const T* some_logits, const Label* their_labels, int64_t count, const Numbers& options)
      : logits(some_logits),
        labels(their_labels),
        rows(count),
        classes(options.classes),
        stride(options.classes),
        smoothing(options.smoothing),
        ignored(options.ignored) {}

  SNUG_INLINE const T* logits_end() const { return logits + rows * stride; }
  SNUG_INLINE bool Ignores(int64_t row) const {
    if constexpr (kSoft) return false;
    return labels[row] == ignored;
  }
  // Sets the number of rows that count.
  absl::Status Check(int64_t* counted) const {
    *counted = rows;
    if constexpr (kSoft) return absl::OkStatus();
    return CheckLabels(labels, rows, classes, ignored, counted);
  }

  const T* logits;
  const Label* labels;
  int64_t rows, classes, stride;
  double smoothing;
  int64_t ignored;
};

template <class T, class Label>
SNUG_INLINE void ForwardRow(const Call<T, Label>& call, int64_t row, double* losses, Float32Port<T>* lse) {
  using A = Accumulator<T>;
  const int64_t classes = call.classes;
  const T* z = call.logits + row * call.stride;
  const A most = LaneMax<A>(classes, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(z[i]); });
  const double sum = LaneSum<A>(classes, [=](int64_t i) SNUG_LAMBDA { return ExpOrZero(static_cast<A>(z[i]) - most); });
  const double row_lse = static_cast<double>(most) + std::log(sum);
  lse[row] = static_cast<Float32Port<T>>(row_lse);
  double loss = 0;
  if (call.Ignores(row)) {
    losses[row] = 0;
    return;
  }
  if constexpr (Call<T, Label>::kSoft) {
    const T* t = call.labels + row * call.stride;
    loss = (1 - call.smoothing) * LaneSum<A>(classes, [=](int64_t i) SNUG_LAMBDA {
             return static_cast<A>(t[i]) * (static_cast<A>(row_lse) - static_cast<A>(z[i]));
           });
  } else {
    loss = (1 - call.smoothing) * (row_lse - static_cast<double>(z[call.labels[row]]));
  }
  if (call.smoothing > 0) {
    loss += call.smoothing / static_cast<double>(classes) *
            LaneSum<A>(classes, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(row_lse) - static_cast<A>(z[i]); });
  }
  losses[row] = loss;
}

template <Isa kIsa, class T, class Label>
SNUG_INLINE void ForwardTile(const Call<T, Label>& call, int64_t row, int64_t count, double* losses,
                             Float32Port<T>* lse) {
  using A = Accumulator<T>;
  const int64_t classes = call.classes;
  RowTile<A> tile;
  A* z = tile.at;
  LoadRows<kIsa>(call.logits + row * call.stride, call.stride, classes, count, call.logits_end(), z);
  alignas(64) A most[kTileRows], log_sum[kTileRows], given[kTileRows], even[kTileRows] = {};
  std::copy_n(z, kTileRows, most);
  for (int64_t i = 1; i < classes; ++i) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) {
      const A v = z[i * kTileRows + j];
      most[j] = v > most[j] ? v : most[j];
    }
  }
  for (int64_t i = 0; i < classes; ++i) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) z[i * kTileRows + j] -= most[j];
  }
  SumTile(classes, log_sum, [=](int64_t, int64_t at) SNUG_LAMBDA { return ExpOrZero(z[at]); });
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < kTileRows; ++j) log_sum[j] = Log(log_sum[j]);
  for (int64_t i = 0; i < classes; ++i) {  // becomes what each class would cost
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) z[i * kTileRows + j] = log_sum[j] - z[i * kTileRows + j];
  }
  if constexpr (Call<T, Label>::kSoft) {
    RowTile<A> target;
    const A* t = target.at;
    LoadRows<kIsa>(call.labels + row * call.stride, call.stride, classes, count, call.labels + call.rows * call.stride,
                   target.at);
    SumTile(classes, given, [=](int64_t, int64_t at) SNUG_LAMBDA { return t[at] * z[at]; });
  } else {
    for (int64_t j = 0; j < count; ++j) {
      given[j] = call.Ignores(row + j) ? A(0) : z[call.labels[row + j] * kTileRows + j];
    }
  }
  if (call.smoothing > 0) SumTile(classes, even, [=](int64_t, int64_t at) SNUG_LAMBDA { return z[at]; });
  for (int64_t j = 0; j < count; ++j) {
    lse[row + j] = most[j] + log_sum[j];
    losses[row + j] = call.Ignores(row + j)
                          ? 0
                          : (1 - call.smoothing) * static_cast<double>(given[j]) +
                                call.smoothing / static_cast<double>(classes) * static_cast<double>(even[j]);
  }
}

// Sets the loss of each row, and the log of its sum of exponentials.
template <class T, class Label>
void ForwardRows(int threads, const Call<T, Label>& call, double* losses, Float32Port<T>* lse) {
  if (call.classes <= kShortRow) {
    ForEachRowTile(threads, call.rows, RowsPerChunk(call.classes),
                   [=](auto isa, int64_t row, int64_t count)
                       SNUG_LAMBDA { ForwardTile<isa()>(call, row, count, losses, lse); });
    return;
  }
  ParallelFor(threads, call.rows, RowsPerChunk(call.classes), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t row = begin; row < end; ++row) ForwardRow(call, row, losses, lse);
    });
  });
}

// The mean of the rows' losses over those that count.
inline double MeanLoss(int64_t rows, int64_t counted, const double* losses) {
  double total = 0;
  WithIsa([=, &total]()
              SNUG_LAMBDA { total = LaneSum<double>(rows, [=](int64_t r) SNUG_LAMBDA { return losses[r]; }); });
  return total / static_cast<double>(counted);
}

// Sets the loss, and the log of each row's sum of exponentials. `losses` is room for the rows' losses.
template <class T, class Label>
absl::Status Forward(const KernelContext& k, const Numbers& options, const Label* labels, double* losses,
                     Float32Port<T>* loss_of_all, Float32Port<T>* lse) {
  const Call<T, Label> call(k, options, labels);
  int64_t counted = 0;
  SNUG_RETURN_IF_ERROR(call.Check(&counted));
  ForwardRows(k.threads(), call, losses, lse);
  *loss_of_all = static_cast<Float32Port<T>>(MeanLoss(call.rows, counted, losses));
  return absl::OkStatus();
}

// A row's gradient is (softmax * sum(target) - target) scale, where the target is `sharp` times what is given, and
// `even` for all classes.
template <class A>
struct TargetNumbers {
  A scale, even, sharp;
};

template <class T, class Label>
SNUG_INLINE void BackwardRow(const Call<T, Label>& call, int64_t row, TargetNumbers<Accumulator<T>> target,
                             Accumulator<T> lse, T* dz) {
  using A = Accumulator<T>;
  const int64_t classes = call.classes;
  const T* z = call.logits + row * call.stride;
  if constexpr (Call<T, Label>::kSoft) {
    const T* t = call.labels + row * call.stride;
    const double given = LaneSum<A>(classes, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(t[i]); });
    const A total = static_cast<A>((1 - call.smoothing) * given + call.smoothing);
    for (int64_t i = 0; i < classes; ++i) {
      const A softmax = ExpOrZero(static_cast<A>(z[i]) - lse);
      dz[i] = static_cast<T>((softmax * total - target.sharp * static_cast<A>(t[i]) - target.even) * target.scale);
    }
  } else {
    const int64_t label = call.labels[row];
    // This is computed first, because z may be dz.
    const A own = ExpOrZero(static_cast<A>(z[label]) - lse) - target.even - target.sharp;
    // There are two sweeps over a block that stays in the cache: with the store between them the compiler would
    // vectorise neither.
    for (int64_t first = 0; first < classes; first += kBlock) {
      const int64_t n = std::min(kBlock, classes - first);
      A block[kBlock];
      for (int64_t i = 0; i < n; ++i) block[i] = ExpOrZero(static_cast<A>(z[first + i]) - lse);
      for (int64_t i = 0; i < n; ++i) dz[first + i] = static_cast<T>((block[i] - target.even) * target.scale);
    }
    dz[label] = static_cast<T>(own * target.scale);
  }
}

template <Isa kIsa, class T, class Label>
SNUG_INLINE void BackwardTile(const Call<T, Label>& call, int64_t row, int64_t count,
                              TargetNumbers<Accumulator<T>> target, const Float32Port<T>* lse, T* dlogits) {
  using A = Accumulator<T>;
  const int64_t classes = call.classes;
  RowTile<A> tile;
  A* z = tile.at;
  LoadRows<kIsa>(call.logits + row * call.stride, call.stride, classes, count, call.logits_end(), z);
  alignas(64) A row_lse[kTileRows] = {};
  std::copy_n(lse + row, count, row_lse);
  for (int64_t i = 0; i < classes; ++i) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) z[i * kTileRows + j] = ExpOrZero(z[i * kTileRows + j] - row_lse[j]);
  }
  if constexpr (Call<T, Label>::kSoft) {
    RowTile<A> given;
    const A* t = given.at;
    LoadRows<kIsa>(call.labels + row * call.stride, call.stride, classes, count, call.labels + call.rows * call.stride,
                   given.at);
    alignas(64) A total[kTileRows];
    SumTile(classes, total, [=](int64_t, int64_t at) SNUG_LAMBDA { return t[at]; });
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) total[j] = target.sharp * total[j] + static_cast<A>(call.smoothing);
    for (int64_t i = 0; i < classes; ++i) {
      SNUG_EACH_OF_N
      for (int64_t j = 0; j < kTileRows; ++j) {
        const int64_t at = i * kTileRows + j;
        z[at] = z[at] * total[j] - target.sharp * t[at];
      }
    }
  } else {
    for (int64_t j = 0; j < count; ++j) {
      if (!call.Ignores(row + j)) z[call.labels[row + j] * kTileRows + j] -= target.sharp;
    }
  }
  SNUG_INDEPENDENT
  for (int64_t at = 0; at < classes * kTileRows; ++at) z[at] = (z[at] - target.even) * target.scale;
  StoreRows<kIsa>(static_cast<const A*>(z), classes, count, dlogits + row * call.stride, call.stride);
}

// The gradient of rows whose mean over `counted` is the loss. It may lie on the logits.
template <class T, class Label>
void BackwardRows(int threads, const Call<T, Label>& call, int64_t counted, const Float32Port<T>* lse, double dloss,
                  T* dlogits) {
  using A = Accumulator<T>;
  const TargetNumbers<A> target = {.scale = static_cast<A>(dloss / static_cast<double>(counted)),
                                   .even = static_cast<A>(call.smoothing / static_cast<double>(call.classes)),
                                   .sharp = static_cast<A>(1 - call.smoothing)};
  // What is ignored and what pads the classes gets nothing.
  const auto clear = [=](int64_t row) SNUG_LAMBDA {
    T* dz = dlogits + row * call.stride;
    std::fill(call.Ignores(row) ? dz : dz + call.classes, dz + call.stride, static_cast<T>(A(0)));
  };
  if (call.classes <= kShortRow) {
    ForEachRowTile(threads, call.rows, RowsPerChunk(call.classes),
                   [=](auto isa, int64_t row, int64_t count) SNUG_LAMBDA {
                     BackwardTile<isa()>(call, row, count, target, lse, dlogits);
                     for (int64_t j = row; j < row + count; ++j) clear(j);
                   });
    return;
  }
  ParallelFor(threads, call.rows, RowsPerChunk(call.classes), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t row = begin; row < end; ++row) {
        if (!call.Ignores(row)) {
          BackwardRow(call, row, target, static_cast<A>(lse[row]), dlogits + row * call.stride);
        }
        clear(row);
      }
    });
  });
}

// Computes dlogits = (softmax * sum(target) - target) * dloss / rows. It may lie on the logits.
template <class T, class Label>
absl::Status Backward(const KernelContext& k, const Numbers& options, const Label* labels, const Float32Port<T>* lse,
                      double dloss, T* dlogits) {
  const Call<T, Label> call(k, options, labels);
  int64_t counted = 0;
  SNUG_RETURN_IF_ERROR(call.Check(&counted));
  BackwardRows(k.threads(), call, counted, lse, dloss, dlogits);
  return absl::OkStatus();
}

}  // namespace snug::core::cross_entropy
