// The last sweep over a block of a product, while it is still in cache.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"
#include "ops/activation.h"
#include "ops/kit/isa.h"
#include "ops/kit/vec_math.h"

namespace snug::core {

// Writes y [rows, columns] = activation(sums + bias), where bias may be null. y may be the sums.
template <class T, class Bias>
SNUG_INLINE void FinishProduct(Activation activation, int64_t rows, int64_t columns, const float* sums,
                               int64_t sums_row, const Bias* bias, T* y, int64_t y_row) {
  const auto sweep = [=](auto f) SNUG_LAMBDA {
    for (int64_t i = 0; i < rows; ++i) {
      const float* from = sums + i * sums_row;
      T* to = y + i * y_row;
      if (bias != nullptr) {
        SNUG_INDEPENDENT
        for (int64_t j = 0; j < columns; ++j) to[j] = static_cast<T>(f(from[j] + static_cast<float>(bias[j])));
      } else {
        SNUG_INDEPENDENT
        for (int64_t j = 0; j < columns; ++j) to[j] = static_cast<T>(f(from[j]));
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

}  // namespace snug::core
