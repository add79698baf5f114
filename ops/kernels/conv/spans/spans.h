// Convolutions of few channels or filters over two dimensions, as networks of small pictures have them, and decoders.
// In channels-last storage what a line of taps takes of a line of an image lies side by side: a span. The next pixel's
// span begins a step further, and may overlap. So a convolution is, for each line of taps, a product of spans, where
// they lie, and these taps' weights; nothing is gathered, and vectors are full where channels are few.
//
// An image is copied as float, with its padding, into lines of its own (lines.h), which stay in a near cache. So
// bfloat16 images cost no casts. Sums are float, and do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "ops/activation.h"
#include "ops/kernels/conv/geometry.h"
#include "ops/kernels/conv/node.h"
#include "ops/kernels/conv/row_parts.h"

namespace snug::core::ops {

WhyNot WhyNotSpansSizes(const ConvGeometry& g);

// Data is channels-last, weights are plain. T and W are float or BFloat16 each.

// y = activation(conv(x, w) + bias), where bias may be null.
template <class T, class W>
void SpansConv(int threads, const ConvGeometry& g, const T* x, const W* w, const W* bias, Activation activation, T* y,
               float* workspace);
template <class T, class W>
void SpansGradInput(int threads, const ConvGeometry& g, const T* dy, const W* w, T* dx, float* workspace);
template <class T, class W>
void SpansGradWeight(int threads, const ConvGeometry& g, const T* x, const T* dy, W* dw, float* workspace);

int64_t SpansWorkspaceBytes(ConvPart part, const ConvGeometry& g);

}  // namespace snug::core::ops
