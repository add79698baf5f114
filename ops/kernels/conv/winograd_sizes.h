// A convolution's node as Winograd's filtering sees it (winograd/winograd.h): whether its sizes are for that, and what
// the data, the results and the filters of each of its directions are there.
#pragma once

#include <cstdint>
#include <utility>

#include "ops/kernels/conv/geometry.h"
#include "ops/kernels/conv/node.h"
#include "ops/kernels/conv/row_parts.h"
#include "ops/kernels/conv/winograd/winograd.h"

namespace snug::core::ops {

WhyNot WhyNotWinogradSizes(const ConvGeometry& g);

// The gradient of the data is a convolution of dy; that of the weights has the sizes of the convolution itself.
WinogradSizes WinogradSizesOf(ConvPart part, const ConvGeometry& g);

// The weights are [out_channels, in_channels, taps, taps] in both directions.
template <class T>
WinogradFilters<T> WinogradFiltersOf(ConvPart part, const ConvGeometry& g, const T* weights) {
  const int64_t taps = g.taps();
  WinogradFilters<T> filters = {.data = weights, .out_stride = g.in_channels * taps, .in_stride = taps};
  if (part == ConvPart::kGradInput) {
    std::swap(filters.out_stride, filters.in_stride);
    filters.reversed = !IsStrided(g);
  }
  return filters;
}

}  // namespace snug::core::ops
