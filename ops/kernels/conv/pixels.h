// Convolutions of 1 x 1 taps as products of matrices, whose rows are pixels; and those pixels as a matrix of their own
// where the convolution goes in steps.
#pragma once

#include "ops/kernels/conv/geometry.h"

namespace snug::core::ops {

// Says whether a convolution is one matrix product, of all pixels that it takes and its weights: it has 1 x 1 taps, no
// padding and no groups.
bool IsProductOfPixels(const ConvGeometry& g);

bool IsStrided(const ConvGeometry& g);

// These are instantiated for float and BFloat16. Data is channels-last, and nothing is padded.

// Sets taken [pixels of the result, in_channels] to pixels of x.
template <class T>
void TakePixels(int threads, const ConvGeometry& g, const T* x, T* taken);

// Sets dx to `taken` where a pixel was taken, and to 0 elsewhere.
template <class T>
void PutBackPixels(int threads, const ConvGeometry& g, const T* taken, T* dx);

}  // namespace snug::core::ops
