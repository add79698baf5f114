// The fast kernels of batch normalisation, for float32 and bfloat16 storage. They are bound by memory.
//
// Variances come from sums of x - shift and of its square. The shift is the mean of a few elements. Where that was far
// from the mean, nearly all of the squares is what the mean adds to them, and the digits of the variance are lost; the
// sums are then taken once more, from the mean.
#include <atomic>
#include <cmath>
#include <type_traits>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kernels/batch_norm/elements.h"
#include "ops/kernels/batch_norm/plane_sweeps.h"
#include "ops/kernels/batch_norm/row_sweeps.h"

namespace snug::core {
namespace batch_norm {
namespace {

// Returns whether the shift was near enough to the mean for the variance to have its digits.
template <class T>
bool SetStatistics(const BatchNormForward<T>& call, int64_t c, double n, double shift, double sum, double squares) {
  constexpr double kNear = 16;        // times the variance: subtracting that costs floats one or two of their 7 digits
  constexpr double kRounding = 1e-5;  // of the shift: numbers that are all the same are no nearer to their mean
  const double d = sum / n;
  call.batch_mean[c] = static_cast<float>(shift + d);
  const double var = squares / n - d * d;
  call.batch_var[c] = static_cast<float>(var < 0 ? 0 : var);  // a NaN stays one
  return !(d * d > kNear * var) || std::fabs(d) < kRounding * std::fabs(shift);
}

template <class T>
Numbers ForwardNumbers(const BatchNormForward<T>& call, int64_t c) {
  const bool of_batch = call.batch_mean != nullptr;
  return Normalising(call, c, static_cast<double>(of_batch ? call.batch_mean[c] : call.mean[c]),
                     static_cast<double>(of_batch ? call.batch_var[c] : call.var[c]));
}

// Returns the numbers that the pass of sums needs.
template <class T>
Numbers SumsNumbers(const BatchNormBackward<T>& call, int64_t c) {
  return Normalising(call, c, static_cast<double>(call.mean[c]), static_cast<double>(call.var[c]));
}

// Returns the numbers for dx. Sets the gradients of weight and bias too.
template <class T>
Numbers BackwardNumbers(const BatchNormBackward<T>& call, int64_t c, double n, double sum, double product) {
  const double inv_std = 1 / std::sqrt(static_cast<double>(call.var[c]) + call.epsilon);
  const double scale = (call.weight != nullptr ? static_cast<double>(call.weight[c]) : 1) * inv_std;
  const double rest = call.mean_rest != nullptr ? static_cast<double>(call.mean_rest[c]) : 0;
  product -= sum * rest;  // the products were of what lacks the mean alone, and so are those with the slope
  call.dbias[c] = static_cast<float>(sum);
  call.dweight[c] = static_cast<float>(product * inv_std);
  Numbers numbers = SumsNumbers(call, c);
  if (call.training) {
    const double slope = -scale * inv_std * inv_std * product / n;
    numbers.offset = static_cast<float>(-scale * sum / n - slope * rest);
    numbers.slope = static_cast<float>(slope);
  }
  return numbers;
}

template <class T, class Element>
void Forward(int threads, const ChannelView& view, const BatchNormForward<T>& call, float* workspace, Element element) {
  const ForwardSums<T> sums = {call.x};
  const double n = static_cast<double>(view.count());
  if (view.inner > 1) {
    ParallelFor(threads, view.channels, 1, [=](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        if (call.batch_mean != nullptr) {
          const auto measure = [&](float shift) {
            double sum = 0, squares = 0;
            SumPlanes(view, c, {.mean = shift}, sums, &sum, &squares);
            return SetStatistics(call, c, n, static_cast<double>(shift), sum, squares);
          };
          if (!measure(Shift(view, call.x, c))) measure(call.batch_mean[c]);
        }
        ForEachElementOfPlanes(view, c, ForwardNumbers(call, c), element);
      }
    });
    return;
  }
  const RowChunks rows(view);
  float* patterns = workspace;
  float* partial = workspace + kPatterns * rows.width;
  const auto set = [=](int64_t c) { SetPatterns(rows, patterns, c, ForwardNumbers(call, c)); };
  if (call.batch_mean != nullptr) {
    SetShifts(rows, call.x, patterns);
    std::atomic<bool> near = true;
    const auto measure = [&] {
      SumChunks(threads, rows, patterns, partial, sums);
      ForEachSum(threads, rows, partial, [&](int64_t c, double sum, double squares) {
        if (!SetStatistics(call, c, n, static_cast<double>(patterns[c]), sum, squares)) near = false;
        set(c);  // the mean takes the place of the shift
      });
    };
    measure();
    if (!near) measure();
  } else {
    for (int64_t c = 0; c < rows.channels; ++c) set(c);
  }
  ForEachElementOfRows(threads, rows, patterns, element);
}

template <class T, class Sums, class Element>
void Backward(int threads, const ChannelView& view, const BatchNormBackward<T>& call, float* workspace, Sums sums,
              Element element) {
  const double n = static_cast<double>(view.count());
  if (view.inner > 1) {
    ParallelFor(threads, view.channels, 1, [=](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        double sum = 0, product = 0;
        SumPlanes(view, c, SumsNumbers(call, c), sums, &sum, &product);
        ForEachElementOfPlanes(view, c, BackwardNumbers(call, c, n, sum, product), element);
      }
    });
    return;
  }
  const RowChunks rows(view);
  float* patterns = workspace;
  float* partial = workspace + kPatterns * rows.width;
  for (int64_t c = 0; c < rows.channels; ++c) SetPatterns(rows, patterns, c, SumsNumbers(call, c));
  SumChunks(threads, rows, patterns, partial, sums);
  ForEachSum(threads, rows, partial, [=](int64_t c, double sum, double product) {
    SetPatterns(rows, patterns, c, BackwardNumbers(call, c, n, sum, product));
  });
  ForEachElementOfRows(threads, rows, patterns, element);
}

// Returns the numbers for dx where the sums are known.
template <class T>
Numbers GradInputNumbers(const BatchNormGradInput<T>& call, int64_t c, double n) {
  const double inv_std = 1 / std::sqrt(static_cast<double>(call.var[c]) + call.epsilon);
  const double scale = (call.weight != nullptr ? static_cast<double>(call.weight[c]) : 1) * inv_std;
  return {.mean = call.mean[c],
          .scale = static_cast<float>(scale),
          .offset = static_cast<float>(-scale * static_cast<double>(call.dbias[c]) / n),
          .slope = static_cast<float>(-scale * inv_std * static_cast<double>(call.dweight[c]) / n)};
}

// Calls fn with the activation as a compile-time constant.
template <class Fn>
void DispatchActivation(Activation activation, Fn&& fn) {
  switch (activation) {
    case Activation::kIdentity:
      return fn(std::integral_constant<Activation, Activation::kIdentity>());
    case Activation::kRelu:
      return fn(std::integral_constant<Activation, Activation::kRelu>());
    case Activation::kRelu6:
      return fn(std::integral_constant<Activation, Activation::kRelu6>());
    default:
      SNUG_CHECK_MSG(false, "batch norm has no such activation");
  }
}

}  // namespace
}  // namespace batch_norm

int64_t BatchNormWorkspace(const ChannelView& view) {
  return view.inner > 1 ? 0 : batch_norm::RowChunks(view).workspace_floats() * static_cast<int64_t>(sizeof(float));
}

template <class T>
void BatchNormFast(int threads, const ChannelView& view, const BatchNormForward<T>& call, void* workspace) {
  if (call.silu) {
    if constexpr (std::is_same_v<T, float>) {
      return batch_norm::Forward(threads, view, call, static_cast<float*>(workspace),
                                 batch_norm::SiluElement{call.x, call.y});
    }
    SNUG_CHECK_MSG(false, "the fast batch norm with silu is for float32");
  }
  batch_norm::DispatchActivation(call.activation, [&](auto activation) {
    float* floats = static_cast<float*>(workspace);
    if (call.add != nullptr) {
      batch_norm::Forward(threads, view, call, floats,
                          batch_norm::ForwardElement<activation(), true, T>{call.x, call.add, call.y});
    } else {
      batch_norm::Forward(threads, view, call, floats,
                          batch_norm::ForwardElement<activation(), false, T>{call.x, nullptr, call.y});
    }
  });
}

template <class T>
void BatchNormFast(int threads, const ChannelView& view, const BatchNormBackward<T>& call, void* workspace) {
  if (call.silu) {
    if constexpr (std::is_same_v<T, float>) {
      return batch_norm::Backward(threads, view, call, static_cast<float*>(workspace),
                                  batch_norm::StoringSiluSums{call.x, call.dy, call.dx},
                                  batch_norm::BackwardElement<Activation::kIdentity, float>{call.x, call.dx, call.dx});
    }
    SNUG_CHECK_MSG(false, "the fast batch norm with silu is for float32");
  }
  batch_norm::DispatchActivation(call.activation, [&](auto activation) {
    float* floats = static_cast<float*>(workspace);
    if (call.dadd == nullptr) {
      batch_norm::Backward(threads, view, call, floats, batch_norm::BackwardSums<activation(), T>{call.x, call.dy},
                           batch_norm::BackwardElement<activation(), T>{call.x, call.dy, call.dx});
      return;
    }
    const batch_norm::BackwardElement<Activation::kIdentity, T> element = {call.x, call.dadd, call.dx};
    if (call.dy2 == nullptr) {
      using Sums = batch_norm::StoringBackwardSums<activation(), false, T>;
      batch_norm::Backward(threads, view, call, floats, Sums{call.x, call.y, call.dy, nullptr, call.dadd}, element);
    } else {
      using Sums = batch_norm::StoringBackwardSums<activation(), true, T>;
      batch_norm::Backward(threads, view, call, floats, Sums{call.x, call.y, call.dy, call.dy2, call.dadd}, element);
    }
  });
}

int64_t BatchNormGradInputWorkspace(const ChannelView& view) {
  if (view.inner > 1) return 0;
  return batch_norm::kPatterns * batch_norm::RowChunks(view).width * static_cast<int64_t>(sizeof(float));
}

template <class T>
void BatchNormFast(int threads, const ChannelView& view, const BatchNormGradInput<T>& call, void* workspace) {
  const double n = static_cast<double>(view.count());
  const batch_norm::BackwardElement<Activation::kIdentity, T> element = {call.x, call.dy, call.dx};
  if (view.inner > 1) {
    ParallelFor(threads, view.channels, 1, [=](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        batch_norm::ForEachElementOfPlanes(view, c, batch_norm::GradInputNumbers(call, c, n), element);
      }
    });
    return;
  }
  const batch_norm::RowChunks rows(view);
  auto* const patterns = static_cast<float*>(workspace);
  for (int64_t c = 0; c < rows.channels; ++c) {
    batch_norm::SetPatterns(rows, patterns, c, batch_norm::GradInputNumbers(call, c, n));
  }
  batch_norm::ForEachElementOfRows(threads, rows, patterns, element);
}

template void BatchNormFast(int, const ChannelView&, const BatchNormForward<float>&, void*);
template void BatchNormFast(int, const ChannelView&, const BatchNormForward<BFloat16>&, void*);
template void BatchNormFast(int, const ChannelView&, const BatchNormBackward<float>&, void*);
template void BatchNormFast(int, const ChannelView&, const BatchNormBackward<BFloat16>&, void*);
template void BatchNormFast(int, const ChannelView&, const BatchNormGradInput<float>&, void*);
template void BatchNormFast(int, const ChannelView&, const BatchNormGradInput<BFloat16>&, void*);

}  // namespace snug::core
