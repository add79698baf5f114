// The pixels that a convolution of 1 x 1 taps takes where it goes in steps, as a matrix of their own.
#pragma once

#include "ops/kernels/conv/geometry.h"

namespace snug::core::ops {

// Says whether a convolution is one matrix product, of all pixels that it takes and its weights.
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
