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

// Sets the loss, and the log of each row's sum of exponentials. `losses` is room for the rows' losses.
template <class T, class Label>
absl::Status Forward(const KernelContext& k, const Numbers& options, const Label* labels, double* losses,
                     Float32Port<T>* loss_of_all, Float32Port<T>* lse) {
  using A = Accumulator<T>;
  constexpr bool kSoft = std::is_same_v<T, Label>;
  const T* logits = k.input<T>(0);
  const int64_t rows = Rows(k.input_type(0));
  const int64_t classes = options.classes;
  const int64_t stride = Stride(k.input_type(0));
  const double smoothing = options.smoothing;
  const int64_t ignored = options.ignored;
  int64_t counted = rows;
  if constexpr (!kSoft) SNUG_RETURN_IF_ERROR(CheckLabels(labels, rows, classes, ignored, &counted));

  ParallelFor(k.threads(), rows, RowsPerChunk(classes), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t r = begin; r < end; ++r) {
        const T* z = logits + r * stride;
        const A most = LaneMax<A>(classes, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(z[i]); });
        const double sum = LaneSum<A>(classes, [=](int64_t i) SNUG_LAMBDA { return Exp(static_cast<A>(z[i]) - most); });
        const double row_lse = static_cast<double>(most) + std::log(sum);
        lse[r] = static_cast<Float32Port<T>>(row_lse);
        double loss = 0;
        if constexpr (kSoft) {
          const T* t = labels + r * stride;
          loss = (1 - smoothing) * LaneSum<A>(classes, [=](int64_t i) SNUG_LAMBDA {
                   return static_cast<A>(t[i]) * (static_cast<A>(row_lse) - static_cast<A>(z[i]));
                 });
        } else if (labels[r] != ignored) {
          loss = (1 - smoothing) * (row_lse - static_cast<double>(z[labels[r]]));
        } else {
          losses[r] = 0;
          continue;
        }
        if (smoothing > 0) {
          loss += smoothing / static_cast<double>(classes) * LaneSum<A>(classes, [=](int64_t i) SNUG_LAMBDA {
                    return static_cast<A>(row_lse) - static_cast<A>(z[i]);
                  });
        }
        losses[r] = loss;
      }
    });
  });
  double total = 0;
  for (int64_t r = 0; r < rows; ++r) total += losses[r];
  *loss_of_all = static_cast<Float32Port<T>>(total / static_cast<double>(counted));
  return absl::OkStatus();
}

// Computes dlogits = (softmax * sum(target) - target) * dloss / rows. It may lie on the logits.
template <class T, class Label>
absl::Status Backward(const KernelContext& k, const Numbers& options, const Label* labels, const Float32Port<T>* lse,
                      double dloss, T* dlogits) {
  using A = Accumulator<T>;
  constexpr bool kSoft = std::is_same_v<T, Label>;
  const T* logits = k.input<T>(0);
  const int64_t rows = Rows(k.input_type(0));
  const int64_t classes = options.classes;
  const int64_t stride = Stride(k.input_type(0));
  const double smoothing = options.smoothing;
  const int64_t ignored = options.ignored;
  int64_t counted = rows;
  if constexpr (!kSoft) SNUG_RETURN_IF_ERROR(CheckLabels(labels, rows, classes, ignored, &counted));

  const A scale = static_cast<A>(dloss / static_cast<double>(counted));
  const A even = static_cast<A>(smoothing / static_cast<double>(classes));
  const A sharp = static_cast<A>(1 - smoothing);
  ParallelFor(k.threads(), rows, RowsPerChunk(classes), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t r = begin; r < end; ++r) {
        const T* z = logits + r * stride;
        T* dz = dlogits + r * stride;
        const A row_lse = static_cast<A>(lse[r]);
        if constexpr (kSoft) {
          const T* t = labels + r * stride;
          const double given = LaneSum<A>(classes, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(t[i]); });
          const A total = static_cast<A>((1 - smoothing) * given + smoothing);
          for (int64_t i = 0; i < classes; ++i) {
            const A softmax = Exp(static_cast<A>(z[i]) - row_lse);
            dz[i] = static_cast<T>((softmax * total - sharp * static_cast<A>(t[i]) - even) * scale);
          }
        } else if (labels[r] != ignored) {
          // This is computed first, because z may be dz.
          const A own = Exp(static_cast<A>(z[labels[r]]) - row_lse) - even - sharp;
          // There are two sweeps over a block that stays in the cache: with the store between them the compiler would
          // vectorise neither.
          for (int64_t first = 0; first < classes; first += kBlock) {
            const int64_t n = std::min(kBlock, classes - first);
            A block[kBlock];
            for (int64_t i = 0; i < n; ++i) block[i] = Exp(static_cast<A>(z[first + i]) - row_lse);
            for (int64_t i = 0; i < n; ++i) dz[first + i] = static_cast<T>((block[i] - even) * scale);
          }
          dz[labels[r]] = static_cast<T>(own * scale);
        } else {
          for (int64_t i = 0; i < classes; ++i) dz[i] = static_cast<T>(A(0));
        }
        std::fill(dz + classes, dz + stride, static_cast<T>(A(0)));
      }
    });
  });
  return absl::OkStatus();
}

}  // namespace snug::core::cross_entropy
