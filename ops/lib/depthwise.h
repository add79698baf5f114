// Depthwise convolution of channels-last images (one filter per channel, two spatial dimensions): own loops over the
// channels, which lie side by side. There is nothing to gain but the memory's speed, and this gets it.
//
// Every product is a sum over taps of a row: pixel j of the result takes pixel j * step + position of some row, times
// that tap's weights. Where a tap reads padding it is left out.
#pragma once

#include <cstdint>

#include "engine/graph/value_type.h"
#include "ops/lib/conv_geometry.h"

namespace snug::ops {

enum class DepthwiseActivation : uint8_t { kNone, kRelu, kRelu6 };

// Whether the functions below know this convolution.
bool IsDepthwise(const ConvGeometry& g, const ValueType& data);

// Elements of the accumulator (float) that each of them needs as workspace.
int64_t DepthwiseWorkspace(const ConvGeometry& g);
int64_t DepthwiseGradWeightWorkspace(const ConvGeometry& g);

// x, y, dx, dy: channels-last; w, dw: [channels, 1, height, width] row-major; bias may be null. T: float or BFloat16.
template <class T>
void DepthwiseConv(int threads, const ConvGeometry& g, const T* x, const T* w, const T* bias,
                   DepthwiseActivation activation, float* workspace, T* y);
template <class T>
void DepthwiseGradInput(int threads, const ConvGeometry& g, const T* dy, const T* w, float* workspace, T* dx);
template <class T>
void DepthwiseGradWeight(int threads, const ConvGeometry& g, const T* x, const T* dy, float* workspace, T* dw);

}  // namespace snug::ops
