// Depthwise convolutions of channels-last images: each channel has taps of its own, so a vector is some channels of one
// pixel, and nothing is packed but the taps. The gradient of the data is gathered, as a convolution of dy with the taps
// turned round; the gradient of the weights keeps its sums in registers while it goes along a row.
//
// Storage is float or BFloat16, sums are float. Each sum runs over the taps, or pixels, in a fixed order, and parts of
// sums are cut by the shape, so bits do not depend on the threads.
#pragma once

#include <cstdint>
#include <limits>

#include "ops/activation.h"
#include "ops/kernels/batch_norm/part_gradients.h"
#include "ops/kernels/conv/geometry.h"
#include "ops/kernels/reduce/part_moments.h"

namespace snug::core::ops {

// Channels that do not fill a vector are done again with their neighbours, so there have to be as many as in a vector
// of any instruction set.
inline constexpr int64_t kLeastDepthwiseChannels = 16;
// Taps along the height, at most.
inline constexpr int64_t kMostDepthwiseLines = 5;
// Says whether the number of taps along the width is one that there are loops for.
constexpr bool HasDepthwiseTaps(int64_t width) { return width == 3 || width == 5; }

// What lies between rows of an image and those of its convolution.
template <class T>
struct DepthwiseRows {
  // Where row `row` of an image is.
  const T* Row(int64_t row) const { return x + (row < turn ? row : row - held_rows) * in_width * channels; }

  const T* x = nullptr;  // row 0 of an image, which need not be there if it is not read
  // Where x has room for held_rows rows alone, the rows from `turn` on are in the places of the first ones.
  int64_t turn = std::numeric_limits<int64_t>::max(), held_rows = 0;
  int64_t in_height = 0, in_width = 0, channels = 0;
  const float* taps = nullptr;  // [kernel_height * kernel_width][channels]
  const float* bias = nullptr;  // [channels]
  float least = 0, most = 0;    // results are clamped to these
  int64_t kernel_height = 0, kernel_width = 0;
  int64_t stride_height = 1, stride_width = 1;
  int64_t pad_top = 0, pad_left = 0;
  int64_t out_width = 0;
  // What will be read and written after these rows, and is asked for on the way: by the next rows, and by what is done
  // with these.
  const T *coming_x = nullptr, *coming_y = nullptr, *coming_rest = nullptr;
  int64_t coming_x_bytes = 0, coming_y_bytes = 0, coming_rest_bytes = 0;
};

// Some channels of all, at least kLeastDepthwiseChannels.
struct DepthwiseChannels {
  int64_t first = 0, count = 0;
};

// Computes some channels of the rows [begin, end) of the result; the first row, with all its channels, begins at y.
template <class T>
void ConvolveRows(const DepthwiseRows<T>& rows, int64_t begin, int64_t end, const DepthwiseChannels& channels, T* y);

// These are instantiated for float and BFloat16. `w` and `dw` are [channels, 1, height, width]; bias may be null. The
// activation is none, relu or relu6.
template <class T>
void DepthwiseConv(int threads, const ConvGeometry& g, const T* x, const T* w, const T* bias, Activation activation,
                   T* y, float* workspace, const ColumnMoments& moments = {});
template <class T>
int64_t DepthwiseMomentsBytes(const ConvGeometry& g);
template <class T>
void DepthwiseGradInput(int threads, const ConvGeometry& g, const T* dy, const T* w, T* dx, float* workspace,
                        const NormGradient<T>& norm = {});
template <class T>
int64_t DepthwiseNormBytes(const ConvGeometry& g);
int64_t DepthwiseWorkspaceBytes(const ConvGeometry& g);  // of both

template <class T>
void DepthwiseGradWeight(int threads, const ConvGeometry& g, const T* x, const T* dy, T* dw, float* workspace);
int64_t DepthwiseGradWeightWorkspaceBytes(const ConvGeometry& g);

}  // namespace snug::core::ops
