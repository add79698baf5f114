// The loops of layer_norm over rows, forward and backward. Rows are contiguous; short ones are done as columns of a
// tile. What is normalised is found again from what was normalised (layer_norm.cc) or from what came of it
// (layer_norm_from_output.cc).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"
#include "ops/nn/norm_rows.h"
#include "ops/nn/row_tile.h"

namespace snug::core::layer_norm_rows {

template <class T>
struct ForwardCall {
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  // Inputs: x, weight, bias. Outputs: y, the means if `keeps_means`, and what the deviations are divided by.
  ForwardCall(const KernelContext& k, int64_t axes, double the_epsilon, bool keeps_means)
      : x(k.input<T>(0)),
        weight(k.has_input(1) ? k.input<S>(1) : nullptr),
        bias(k.has_input(2) ? k.input<S>(2) : nullptr),
        y(k.output<T>(0)),
        means(keeps_means ? k.output<S>(1) : nullptr),
        inv_stds(k.output<S>(keeps_means ? 2 : 1)),
        rows(k.input_type(0), axes),
        epsilon(the_epsilon) {}
  const T* x;
  const S *weight, *bias;  // [width], or null
  T* y;                    // may be x
  S *means, *inv_stds;     // [rows]; means may be null
  NormRows rows;
  double epsilon;
};

// Does `count` rows, kTileRows at most.
template <Isa kIsa, class T>
SNUG_INLINE void ForwardRows(const ForwardCall<T>& call, int64_t row, int64_t count) {
  using A = Accumulator<T>;
  const int64_t n = call.rows.width;
  const A scale = A(1) / static_cast<A>(n);
  const A epsilon = static_cast<A>(call.epsilon);
  const auto* weight = call.weight;
  const auto* bias = call.bias;
  const T* x = call.x + row * n;
  T* y = call.y + row * n;
  alignas(64) A mean[kTileRows], inv_std[kTileRows] = {};  // below, all of a tile's have a root
  SumRows<kIsa, 1>(count, n, mean,
                   [=](int64_t j, int64_t i) SNUG_LAMBDA { return std::array<A, 1>{static_cast<A>(x[j * n + i])}; });
  for (int64_t j = 0; j < count; ++j) mean[j] *= scale;
  SumRows<kIsa, 1>(count, n, inv_std, [=, &mean](int64_t j, int64_t i) SNUG_LAMBDA {
    const A d = static_cast<A>(x[j * n + i]) - mean[j];
    return std::array<A, 1>{d * d};
  });
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < kTileRows; ++j) inv_std[j] = A(1) / std::sqrt(inv_std[j] * scale + epsilon);
  for (int64_t j = 0; j < count; ++j) {
    const A of_row = mean[j];
    const A factor = inv_std[j];
    const T* a = x + j * n;
    T* b = y + j * n;
    if (weight != nullptr && bias != nullptr) {
      SNUG_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        b[i] = static_cast<T>((static_cast<A>(a[i]) - of_row) * factor * weight[i] + bias[i]);
      }
    } else {
      for (int64_t i = 0; i < n; ++i) {
        A v = (static_cast<A>(a[i]) - of_row) * factor;
        if (weight != nullptr) v *= weight[i];
        if (bias != nullptr) v += bias[i];
        b[i] = static_cast<T>(v);
      }
    }
  }
  if (call.means != nullptr) std::copy_n(mean, count, call.means + row);
  std::copy_n(inv_std, count, call.inv_stds + row);
}

// Does `count` short rows.
template <Isa kIsa, class T>
SNUG_INLINE void ForwardTile(const ForwardCall<T>& call, int64_t row, int64_t count) {
  using A = Accumulator<T>;
  const int64_t n = call.rows.width;
  const A scale = A(1) / static_cast<A>(n);
  const A epsilon = static_cast<A>(call.epsilon);
  const auto* weight = call.weight;
  const auto* bias = call.bias;
  RowTile<A> tile;
  A* x = tile.at;
  LoadRows<kIsa>(call.x + row * n, n, n, count, call.x + call.rows.rows * n, x);
  alignas(64) A mean[kTileRows], inv_std[kTileRows];
  SumTile(n, mean, [=](int64_t, int64_t at) SNUG_LAMBDA { return x[at]; });
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < kTileRows; ++j) mean[j] *= scale;
  for (int64_t i = 0; i < n; ++i) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) x[i * kTileRows + j] -= mean[j];
  }
  SumTile(n, inv_std, [=](int64_t, int64_t at) SNUG_LAMBDA { return x[at] * x[at]; });
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < kTileRows; ++j) inv_std[j] = A(1) / std::sqrt(inv_std[j] * scale + epsilon);
  for (int64_t i = 0; i < n; ++i) {
    const A w = weight != nullptr ? weight[i] : A(1);
    const A added = bias != nullptr ? bias[i] : A(0);
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) x[i * kTileRows + j] = x[i * kTileRows + j] * inv_std[j] * w + added;
  }
  StoreRows<kIsa>(static_cast<const A*>(x), n, count, call.y + row * n, n);
  if (call.means != nullptr) std::copy_n(mean, count, call.means + row);
  std::copy_n(inv_std, count, call.inv_stds + row);
}

template <class T>
void Forward(const KernelContext& k, const ForwardCall<T>& call) {
  ForEachNormRows(
      k.threads(), call.rows,
      [=](auto isa, int64_t row, int64_t count) SNUG_LAMBDA { ForwardRows<isa()>(call, row, count); },
      [=](auto isa, int64_t row, int64_t count) SNUG_LAMBDA { ForwardTile<isa()>(call, row, count); });
}

// What x' = (x - mean) inv_std is found from: x; or y = x' weight + bias.
enum class Known : uint8_t { kInput, kOutput };

// Let g = dy weight. Then dx = inv_std (g - mean(g) - x' mean(g x')), and dweight and dbias are the sums over rows of
// dy x' and dy. g x' is dy (y - bias), too.
template <class T, Known kKnown>
struct BackwardCall {
  using A = Accumulator<T>;
  using S = Float32Port<T>;

  // Returns x' of an element, of which `a` is known, in column i of a row with these numbers.
  SNUG_INLINE A Normalized(A a, int64_t i, A mean, A inv_std) const {
    if constexpr (kKnown == Known::kInput) return (a - mean) * inv_std;
    return (a - bias[i]) * inv_weight[i];
  }

  const T* known;
  const S* weight;             // [width], or null
  const S *means, *inv_stds;   // [rows]; means is null where y is known
  const S *bias, *inv_weight;  // [width] where y is known; else null
  const T* dy;
  T* dx;  // may be what is known, or dy
  NormRows rows;
};

// The numbers of the rows that are done together.
template <class A>
struct RowNumbers {
  alignas(64) A mean[kTileRows], inv_std[kTileRows];
  alignas(64) A means[2 * kTileRows];  // those of g, then those of g x'
};

// Computes the elements of kRows rows, from the j-th of those that are done together.
template <int kRows, class T, Known kKnown>
SNUG_INLINE void BackwardElements(const BackwardCall<T, kKnown>& call, int64_t row,
                                  const RowNumbers<Accumulator<T>>& all, int64_t j, Float32Port<T>* dweight,
                                  Float32Port<T>* dbias) {
  using A = Accumulator<T>;
  const int64_t n = call.rows.width;
  const T* x = call.known + (row + j) * n;
  const T* dy = call.dy + (row + j) * n;
  T* dx = call.dx + (row + j) * n;
  const auto* weight = call.weight;
  A mean[kRows], inv_std[kRows], mean_g[kRows], mean_gx[kRows];
  for (int r = 0; r < kRows; ++r) {
    mean[r] = all.mean[j + r];
    inv_std[r] = all.inv_std[j + r];
    mean_g[r] = all.means[j + r];
    mean_gx[r] = all.means[kTileRows + j + r];
  }
  SNUG_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const A w = weight != nullptr ? weight[i] : A(1);
    A of_weight = A(0), of_bias = A(0);
    for (int r = 0; r < kRows; ++r) {
      const A own = static_cast<A>(dy[r * n + i]);
      const A normalized = call.Normalized(static_cast<A>(x[r * n + i]), i, mean[r], inv_std[r]);
      of_weight += own * normalized;
      of_bias += own;
      dx[r * n + i] = static_cast<T>(inv_std[r] * (own * w - mean_g[r] - normalized * mean_gx[r]));
    }
    dweight[i] += of_weight;
    dbias[i] += of_bias;
  }
}

// Does `count` rows, kTileRows at most.
template <Isa kIsa, class T, Known kKnown>
SNUG_INLINE void BackwardRows(const BackwardCall<T, kKnown>& call, int64_t row, int64_t count, Float32Port<T>* dweight,
                              Float32Port<T>* dbias) {
  using A = Accumulator<T>;
  // Of more rows, the numbers leave the registers, and rows a power of two long push each other out of the first-level
  // cache.
  constexpr int kRows = kIsa == Isa::kBaseline ? 1 : 2;
  const int64_t n = call.rows.width;
  const T* x = call.known + row * n;
  const T* dy = call.dy + row * n;
  const auto* weight = call.weight;
  const auto* bias = call.bias;
  const A scale = A(1) / static_cast<A>(n);
  RowNumbers<A> numbers;
  if constexpr (kKnown == Known::kInput) {
    std::copy_n(call.means + row, count, numbers.mean);
  } else {
    std::fill_n(numbers.mean, count, A(0));
  }
  std::copy_n(call.inv_stds + row, count, numbers.inv_std);
  const A* const mean = numbers.mean;
  SumRows<kIsa, 2>(count, n, numbers.means, [=](int64_t j, int64_t i) SNUG_LAMBDA {
    const A own = static_cast<A>(dy[j * n + i]);
    const A g = weight != nullptr ? own * weight[i] : own;
    if constexpr (kKnown == Known::kOutput) {
      return std::array<A, 2>{g, own * (static_cast<A>(x[j * n + i]) - bias[i])};
    } else {
      return std::array<A, 2>{g, g * (static_cast<A>(x[j * n + i]) - mean[j])};
    }
  });
  for (int64_t j = 0; j < count; ++j) {
    numbers.means[j] *= scale;
    numbers.means[kTileRows + j] *= kKnown == Known::kInput ? scale * numbers.inv_std[j] : scale;
  }
  int64_t j = 0;
  for (; j + kRows <= count; j += kRows) BackwardElements<kRows>(call, row, numbers, j, dweight, dbias);
  for (; j < count; ++j) BackwardElements<1>(call, row, numbers, j, dweight, dbias);
}

// Does `count` short rows. Each lane adds up its rows' gradients of weight and bias: `dweight` and `dbias` are tiles.
template <Isa kIsa, class T, Known kKnown>
SNUG_INLINE void BackwardTile(const BackwardCall<T, kKnown>& call, int64_t row, int64_t count, Accumulator<T>* dweight,
                              Accumulator<T>* dbias) {
  using A = Accumulator<T>;
  const int64_t n = call.rows.width;
  const A scale = A(1) / static_cast<A>(n);
  const auto* weight = call.weight;
  RowTile<A> x_tile, dy_tile;
  A* x = x_tile.at;
  A* dy = dy_tile.at;
  LoadRows<kIsa>(call.known + row * n, n, n, count, call.known + call.rows.rows * n, x);
  LoadRows<kIsa>(call.dy + row * n, n, n, count, call.dy + call.rows.rows * n, dy);
  alignas(64) A mean[kTileRows] = {}, inv_std[kTileRows] = {}, mean_g[kTileRows], mean_gx[kTileRows];
  if constexpr (kKnown == Known::kInput) std::copy_n(call.means + row, count, mean);
  std::copy_n(call.inv_stds + row, count, inv_std);
  for (int64_t i = 0; i < n; ++i) {
    const A w = weight != nullptr ? weight[i] : A(1);
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) {
      const int64_t at = i * kTileRows + j;
      x[at] = call.Normalized(x[at], i, mean[j], inv_std[j]);
      dweight[at] += dy[at] * x[at];
      dbias[at] += dy[at];
      dy[at] *= w;
    }
  }
  SumTile(n, mean_g, [=](int64_t, int64_t at) SNUG_LAMBDA { return dy[at]; });
  SumTile(n, mean_gx, [=](int64_t, int64_t at) SNUG_LAMBDA { return dy[at] * x[at]; });
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < kTileRows; ++j) {
    mean_g[j] *= scale;
    mean_gx[j] *= scale;
  }
  for (int64_t i = 0; i < n; ++i) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) {
      const int64_t at = i * kTileRows + j;
      x[at] = inv_std[j] * (dy[at] - mean_g[j] - x[at] * mean_gx[j]);
    }
  }
  StoreRows<kIsa>(static_cast<const A*>(x), n, count, call.dx + row * n, n);
}

// The room that the chunks' sums take.
inline int64_t PartialSums(const NormRows& rows) { return NormPartialSums<2>(rows); }

// `partial` has that room. The outputs after dx are the gradients of weight and bias.
template <class T, Known kKnown>
void Backward(const KernelContext& k, const BackwardCall<T, kKnown>& call, Float32Port<T>* partial) {
  SumOverNormRows<2>(
      k, call.rows, partial,
      [=](auto isa, int64_t row, int64_t count, auto* sums)
          SNUG_LAMBDA { BackwardRows<isa()>(call, row, count, sums, sums + call.rows.width); },
      [=](auto isa, int64_t row, int64_t count, auto* lanes)
          SNUG_LAMBDA { BackwardTile<isa()>(call, row, count, lanes[0].at, lanes[1].at); });
}

}  // namespace snug::core::layer_norm_rows
