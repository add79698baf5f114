// The last sweep over a block of a product, while it is still in cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "engine/base/dtype.h"
#include "ops/activation.h"
#include "ops/kernels/matmul/gemm.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"
#include "ops/kit/vec_math.h"
#include "ops/math/functions.h"

namespace snug::core {

// Writes y [rows, columns] = activation(sums + bias), where bias may be null. y may be the sums.
template <Isa kIsa, class T, class Bias>
SNUG_INLINE void FinishProduct(IsaConstant<kIsa> isa, Activation activation, int64_t rows, int64_t columns,
                               const float* sums, int64_t sums_row, const Bias* bias, T* y, int64_t y_row) {
  const auto sweep = [=](auto f) SNUG_LAMBDA {
    for (int64_t i = 0; i < rows; ++i) {
      const float* from = sums + i * sums_row;
      T* to = y + i * y_row;
      if (bias != nullptr) {
        FillRow(isa, columns, to, [=](int64_t j) SNUG_LAMBDA { return f(from[j] + static_cast<float>(bias[j])); });
      } else {
        FillRow(isa, columns, to, [=](int64_t j) SNUG_LAMBDA { return f(from[j]); });
      }
    }
  };
  switch (activation) {
    case Activation::kIdentity:
      return sweep([](float x) SNUG_LAMBDA { return x; });
    case Activation::kRelu:
      return sweep([](float x) SNUG_LAMBDA { return x < 0.0F ? 0.0F : x; });
    case Activation::kRelu6:
      return sweep([](float x) SNUG_LAMBDA { return x < 0.0F ? 0.0F : x > 6.0F ? 6.0F : x; });
    case Activation::kSigmoid:
      return sweep([](float x) SNUG_LAMBDA { return Sigmoid(x); });
    case Activation::kTanh:
      return sweep([](float x) SNUG_LAMBDA { return Tanh(x); });
  }
}

// Calls f with the gradient of a function, which is asked for what SlopeOf says and for dy; not for kNothing.
template <class Fn>
SNUG_INLINE void WithGradientOf(SlopeOf of, const Fn& f) {
  switch (of) {
    case SlopeOf::kNothing:
      return;
    case SlopeOf::kRelu:
      return f(functions::ReluGrad());
    case SlopeOf::kGelu:
      return f(functions::GeluGrad());
    case SlopeOf::kGeluByTanh:
      return f(functions::GeluByTanhGrad());
  }
}

// Multiplies c [rows, columns] by the slopes that a function has at each of these numbers. A c in bfloat16 has been
// rounded before, as it is where that is done in a sweep of its own.
template <Isa kIsa, class T>
SNUG_INLINE void MultiplyBySlopes(IsaConstant<kIsa> isa, SlopeOf of, int64_t rows, int64_t columns, const T* at,
                                  int64_t row, T* c) {
  WithGradientOf(of, [=](auto gradient) SNUG_LAMBDA {
    // The forward pass left these numbers long ago, and a block's rows are so short that no processor foresees the
    // next.
    constexpr int64_t kAhead = 12, kOfLine = 64 / static_cast<int64_t>(sizeof(T));
    for (int64_t i = 0; i < rows; ++i) {
      const T* const later = at + std::min(i + kAhead, rows - 1) * row;
      for (int64_t j = 0; j < columns; j += kOfLine) __builtin_prefetch(later + j);
      const T* const from = at + i * row;
      T* const to = c + i * row;
      FillRow(isa, columns, to,
              [=](int64_t j) SNUG_LAMBDA { return gradient(static_cast<float>(from[j]), static_cast<float>(to[j])); });
    }
  });
}

// Says whether the sums are the result.
template <class A, class B, class C>
bool SumsAreAll(const GemmCall<A, B, C>& call, Activation activation) {
  return std::is_same_v<C, float> && call.bias == nullptr && activation == Activation::kIdentity &&
         call.slope == SlopeOf::kNothing;
}

// Does what is left to do for a block of a product, whose element [0, 0] is c's [i, j].
template <Isa kIsa, class A, class B, class C>
SNUG_INLINE void FinishBlock(IsaConstant<kIsa> isa, const GemmCall<A, B, C>& call, Activation activation, int64_t i,
                             int64_t j, int64_t rows, int64_t columns, const float* sums, int64_t sums_row) {
  C* const c = call.c + i * call.n + j;
  if (call.bias != nullptr || activation != Activation::kIdentity || !std::is_same_v<C, float>) {
    FinishProduct(isa, activation, rows, columns, sums, sums_row, call.bias == nullptr ? nullptr : call.bias + j, c,
                  call.n);
  }
  if (call.slope != SlopeOf::kNothing) {
    MultiplyBySlopes(isa, call.slope, rows, columns, call.slope_at + i * call.n + j, call.n, c);
  }
}

}  // namespace snug::core
