// What batch norm's gradient needs of the gradient of its result, where a kernel makes that part by part: it is left as
// what the activation lets through, and two sums of it are taken for each channel, while caches have the part. That
// saves a sweep over memory. Each part's rows are added up in float, and in the end the parts are, in double, in their
// sequence. So bits depend on how the rows are cut into parts, which is to follow from the shape alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ops/activation.h"
#include "ops/kernels/batch_norm/elements.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kit/isa.h"

namespace snug::core {

// Asks a kernel that makes the gradient of activation(batch_norm(x) + something), [rows, columns], for this: to set to
// 0 what the activation does not let through, and for the gradients of the norm's weight and bias.
template <class T>
struct NormGradient {
  const T* x = nullptr;  // null: nothing is asked for
  const T* y = nullptr;  // tells what the activation lets through; null: nothing was added, and x tells
  const float *mean = nullptr, *var = nullptr;
  const float *weight = nullptr, *bias = nullptr;  // null: 1 and 0; only x asks for the bias
  double epsilon = 0;
  Activation activation = Activation::kIdentity;  // none, relu or relu6
  float *dweight = nullptr, *dbias = nullptr;
  float* workspace = nullptr;  // as large as the kernel says
};

// Rows and columns of a matrix.
struct PartOfMatrix {
  int64_t first_row, first_column, rows, columns;
};

// These are instantiated for float and BFloat16.
template <class T>
class PartGradients {
 public:
  // Sets what parts need in the workspace.
  PartGradients(int64_t parts, int64_t columns, const NormGradient<T>& asked);
  static int64_t WorkspaceBytes(int64_t parts, int64_t columns) {
    return (kNumbers + parts * 2) * columns * static_cast<int64_t>(sizeof(float));
  }

  bool asked() const { return asked_.x != nullptr; }

  // Does a part, or some of its columns, of the gradient [rows, columns]. Threads may do different columns of a part.
  template <Isa kIsa>
  SNUG_INLINE void Take(int64_t part, const PartOfMatrix& at, T* gradient) const {
    switch (asked_.activation) {
      case Activation::kRelu:
        return TakeThrough<kIsa, Activation::kRelu>(part, at, gradient);
      case Activation::kRelu6:
        return TakeThrough<kIsa, Activation::kRelu6>(part, at, gradient);
      default:
        return TakeAllRows<kIsa, Activation::kIdentity, false>(part, at, gradient);
    }
  }

  // Sets what is asked for.
  void PutTogether(int threads) const;

 private:
  static constexpr int64_t kNumbers = 3;  // of a column: its mean, and what it is scaled by and moved by

  template <Isa kIsa, Activation kActivation>
  SNUG_INLINE void TakeThrough(int64_t part, const PartOfMatrix& at, T* gradient) const {
    if (asked_.y != nullptr) return TakeAllRows<kIsa, kActivation, true>(part, at, gradient);
    TakeAllRows<kIsa, kActivation, false>(part, at, gradient);
  }

  // By rows, as processors foresee what lies side by side; by some of them, as sums are loaded and stored for each.
  template <Isa kIsa, Activation kActivation, bool kFromY>
  SNUG_INLINE void TakeAllRows(int64_t part, const PartOfMatrix& at, T* gradient) const {
    constexpr int64_t kTogether = 4;
    float* const sums = sums_ + part * 2 * columns_ + at.first_column;
    std::fill_n(sums, at.columns, 0.0F);
    std::fill_n(sums + columns_, at.columns, 0.0F);
    int64_t i = 0;
    for (; i + kTogether <= at.rows; i += kTogether) {
      TakeRows<kIsa, kTogether, kActivation, kFromY>(at.first_row + i, at, sums, gradient);
    }
    for (; i < at.rows; ++i) TakeRows<kIsa, 1, kActivation, kFromY>(at.first_row + i, at, sums, gradient);
  }

  template <Isa kIsa, int kRows, Activation kActivation, bool kFromY>
  SNUG_INLINE void TakeRows(int64_t row, const PartOfMatrix& at, float* sums, T* gradient) const {
    using Tile = GemmTile<kIsa, float>;
    int64_t c = 0;
    for (; c + Tile::kLanes <= at.columns; c += Tile::kLanes) {
      TakeVector<typename Tile::Vector, kRows, kActivation, kFromY>(row, at.first_column + c, sums + c, gradient);
    }
    for (; c < at.columns; ++c) {
      TakeVector<float, kRows, kActivation, kFromY>(row, at.first_column + c, sums + c, gradient);
    }
  }

  // Does kRows rows of an F of columns; F is as in elements.h.
  template <class F, int kRows, Activation kActivation, bool kFromY>
  SNUG_INLINE void TakeVector(int64_t row, int64_t column, float* sums, T* gradient) const {
    batch_norm::NumbersOf<F> numbers;
    LoadScalarOrVector(numbers_ + column, numbers.mean);
    LoadScalarOrVector(numbers_ + columns_ + column, numbers.scale);
    LoadScalarOrVector(numbers_ + 2 * columns_ + column, numbers.bias);
    F sum, product;
    LoadScalarOrVector(sums, sum);
    LoadScalarOrVector(sums + columns_, product);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const int64_t element = (row + r) * columns_ + column;
      F g, centred;
      LoadScalarOrVector(gradient + element, g);
      batch_norm::Centred(asked_.x, element, numbers, centred);
      if constexpr (kActivation != Activation::kIdentity) {
        F tells = centred * numbers.scale + numbers.bias;
        if constexpr (kFromY) LoadScalarOrVector(asked_.y + element, tells);
        batch_norm::LetThrough<kActivation>(tells, g);
        StoreScalarOrVector(g, gradient + element);
      }
      sum += g;
      product += g * centred;
    }
    StoreScalarOrVector(sum, sums);
    StoreScalarOrVector(product, sums + columns_);
  }

  const int64_t parts_, columns_;
  const NormGradient<T> asked_;
  float* const numbers_;  // [kNumbers][columns]
  float* const sums_;     // [parts][2][columns]
};

}  // namespace snug::core
