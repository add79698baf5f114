// Convolutions as products of matrices. Of 1 x 1 taps the rows are pixels, which make a matrix of their own where the
// convolution goes in steps; of others they are what all taps take.
#pragma once

#include <absl/types/span.h>

#include <array>
#include <cstdint>

#include "ops/kernels/conv/geometry.h"
#include "ops/kernels/matmul/panels.h"
#include "ops/kernels/matmul/tall.h"

namespace snug::core::ops {

// Says whether a convolution is one matrix product, of all pixels that it takes and its weights: it has 1 x 1 taps, no
// padding and no groups.
bool IsProductOfPixels(const ConvGeometry& g);

// These are instantiated for float and BFloat16. Data is channels-last.

// The pixels of x that each tap takes for each one of the result, where they are.
template <class T>
class TakenPixels final : public ScatteredRows<T> {
 public:
  // `padding`: zeros for the channels of a pixel, which are read where a tap is outside; null: none is.
  TakenPixels(const ConvGeometry& g, const T* x, const T* padding = nullptr) : g_(g), x_(x), padding_(padding) {}
  void Find(int64_t tap, int64_t first, absl::Span<const T*> rows) const override;

 private:
  const ConvGeometry& g_;
  const T *x_, *padding_;
};

// Sets taken [pixels of the result, in_channels] to pixels of x.
template <class T>
void TakePixels(int threads, const ConvGeometry& g, const T* x, T* taken);

// Sets dx to `taken` where a pixel was taken, and to 0 elsewhere.
template <class T>
void PutBackPixels(int threads, const ConvGeometry& g, const T* taken, T* dx);

// What all taps take of x for each pixel of the result: [pixels, taps, in_channels], with 0 for what is padding. There
// are no groups, and the taps along the last axis lie side by side.
template <class T>
class Patches final : public TallRows<T> {
 public:
  Patches(const ConvGeometry& g, const T* x);
  const T* Row(int64_t row, int64_t begin, int64_t columns, T* scratch) const override;

 private:
  using Sizes = std::array<int64_t, kMaxSpatial>;

  const T* x_;
  int64_t channels_;
  // The axes that a convolution has are the last ones here.
  Sizes in_ = {1, 1, 1}, out_ = {1, 1, 1}, kernel_ = {1, 1, 1}, stride_ = {1, 1, 1}, dilation_ = {1, 1, 1}, pad_ = {};
};

}  // namespace snug::core::ops
