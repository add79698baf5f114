// The transform of filters (winograd.h) into panels for products (products.h).
#pragma once

#include <cstdint>

#include "ops/kernels/conv/winograd/tiles.h"
#include "ops/kernels/conv/winograd/winograd.h"

namespace snug::core::winograd {

// Transforms the filters of a block of output channels from `out` on, of some input channels, into panels that have
// `rows`, the first of them for the first of these channels: [product][panel][row][columns of a panel]. Output channels
// that are not there get zeros.
template <class T>
void TransformFilters(const WinogradSizes& s, const WinogradFilters<T>& filters, int64_t out, const Channels& channels,
                      float* panels, int64_t rows, int64_t product_stride);

// Transforms all filters, on several threads: [block of output channels][product][panel][input channel][column].
template <class T>
void TransformAllFilters(int threads, const WinogradSizes& s, const WinogradFilters<T>& filters, float* panels);

}  // namespace snug::core::winograd
