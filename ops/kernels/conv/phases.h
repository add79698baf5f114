// Convolutions of few channels in steps, as a network of images has one in front, by Winograd's filtering
// (winograd/winograd.h). In steps of two the phases of the data are the pixels in even or in odd rows and columns. As
// channels of one pixel they are the data of a convolution in single steps, each of whose taps is 2 x 2 of the taps
// here. So 7 x 7 taps become 4 x 4; in the odd phases the fourth one of a row or column is zero, as 7 is odd. That
// takes 48 multiplications, of 147, for each result of three channels; 11 x 11 taps in steps of four have 16 phases of
// 3 x 3 taps, which take 108, of 363.
#pragma once

#include <cstdint>

#include "ops/kernels/conv/geometry.h"
#include "ops/kernels/conv/row_parts.h"
#include "ops/kernels/conv/winograd/winograd.h"

namespace snug::core::ops {

WhyNot WhyNotPhasesSizes(const ConvGeometry& g);

// The convolution of the phases. They hold the padding as zeros, so it has none.
WinogradSizes SizesOfPhases(const ConvGeometry& g);

// How many elements the phases of x have, with those behind the last pixel that Winograd's filtering may read.
int64_t PhasesSize(const ConvGeometry& g);
// How many elements the filters of the phases have, or their gradient: [out_channels, phases, taps, taps].
int64_t FilterPhasesSize(const ConvGeometry& g);

// These are instantiated for float and BFloat16. x is channels-last, w is plain.

template <class T>
void TakePhases(int threads, const ConvGeometry& g, const T* x, T* phases);
template <class T>
void TakeFilterPhases(const ConvGeometry& g, const T* w, T* filters);
template <class T>
void PutBackFilterPhases(const ConvGeometry& g, const T* filters, T* w);

}  // namespace snug::core::ops
