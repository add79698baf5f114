// The gradient of the data of a depthwise convolution that goes in steps: each pixel gathers what it gave, by a part of
// the taps. Where steps are two wide, the taps of neighbours take turns.
#pragma once

#include <cstdint>

#include "ops/kernels/conv/depthwise/depthwise.h"

namespace snug::core::ops {

// Computes the rows [begin, end) of dx; the first of them goes to y. `rows` describes the convolution with what is read
// and written exchanged: x is dy, whose height and width are in_height and in_width. There has to be a bias, of zeros,
// and what results are clamped to has to let all through. It is instantiated for float and BFloat16.
template <class T>
void GatherRows(const DepthwiseRows<T>& rows, int64_t begin, int64_t end, T* y);

}  // namespace snug::core::ops
