// The plain kernels of convolution, for any layout of the data (by strides) and row-major weights: each of the three
// products is gathered into small panels (implicit im2col, one group at a time) and multiplied there.
#pragma once

#include <array>
#include <cstdint>

#include "engine/graph/value_type.h"
#include "ops/lib/contract.h"
#include "ops/lib/conv_geometry.h"

namespace snug::ops {

namespace internal {

using Spatial = std::array<int64_t, kMaxSpatial>;

// One of the two coordinates that pick an element: a pixel or a tap. Their sum is an offset (batch or channel) and a
// spatial position, which may lie in the padding.
struct Pick {
  int64_t offset;
  Spatial position;
};

// An operand of [batch, channels, spatial...] in elements.
struct Grid {
  int64_t batch_stride;
  int64_t channel_stride;
  Spatial size;
  Spatial stride;

  Grid(const ValueType& type, int spatial, const Spatial& sizes) : size(sizes), stride{0, 0, 0} {
    const Strides strides = type.strides();
    batch_stride = strides[0];
    channel_stride = strides[1];
    for (int i = 0; i < spatial; ++i) stride[static_cast<size_t>(i)] = strides[static_cast<size_t>(i) + 2];
  }
  int64_t pixels() const { return size[0] * size[1] * size[2]; }
  // The index-th pixel of the batch, in row-major order.
  int64_t Unravel(int64_t index, Spatial* position) const {
    for (size_t i = kMaxSpatial; i-- > 0;) {
      (*position)[i] = index % size[i];
      index /= size[i];
    }
    return index;
  }
  int64_t Offset(int64_t index) const {
    Spatial position;
    const int64_t sample = Unravel(index, &position);
    return sample * batch_stride + position[0] * stride[0] + position[1] * stride[1] + position[2] * stride[2];
  }
};

// The element that two picks point at, 0 outside. kDivided: positions are in steps of `step`; those between are 0.
template <bool kDivided, class T>
SNUG_INLINE Accumulator<T> At(const T* data, const Grid& grid, const Spatial& step, const Pick& a, const Pick& b) {
  int64_t offset = a.offset + b.offset;
  for (size_t i = 0; i < kMaxSpatial; ++i) {
    int64_t position = a.position[i] + b.position[i];
    if constexpr (kDivided) {
      if (position % step[i] != 0) return 0;
      position /= step[i];
    }
    if (position < 0 || position >= grid.size[i]) return 0;
    offset += position * grid.stride[i];
  }
  return data[offset];
}

// Where tap `index` of [channels, kernel...] reads, relative to its pixel; `direction` is -1 in the backward product.
inline Pick TapAt(const ConvGeometry& g, int64_t index, int64_t channel_stride, int64_t direction) {
  Pick pick;
  for (size_t i = kMaxSpatial; i-- > 0;) {
    pick.position[i] = direction * (index % g.kernel[i]) * g.dilation[i];
    index /= g.kernel[i];
  }
  pick.offset = index * channel_stride;
  return pick;
}

// Where the taps of output pixel `index` start.
inline Pick OutputPixelAt(const ConvGeometry& g, const Grid& x, const Grid& y, int64_t index) {
  Pick pick;
  pick.offset = y.Unravel(index, &pick.position) * x.batch_stride;
  for (size_t i = 0; i < kMaxSpatial; ++i) pick.position[i] = pick.position[i] * g.stride[i] - g.pad_begin[i];
  return pick;
}

}  // namespace internal

// y = conv(x, w) + bias, with `activation` applied to what is stored; bias may be null.
template <class T, class Activation>
void PlainConv(int threads, const ConvGeometry& g, const ValueType& x_type, const ValueType& y_type, const T* x,
               const T* w, const T* bias, T* y, const Activation& activation) {
  using Acc = Accumulator<T>;
  using internal::Pick;
  const internal::Grid from(x_type, g.spatial, g.in);
  const internal::Grid to(y_type, g.spatial, g.out);
  const int64_t in_channels = g.in_channels / g.groups;
  const int64_t out_channels = g.out_channels / g.groups;
  const int64_t depth_size = in_channels * g.taps();
  const internal::Spatial one = {1, 1, 1};
  Contract<Acc>(
      threads, g.groups, g.batch * to.pixels(), out_channels, depth_size,
      [&](int64_t group, int64_t m0, int64_t rows, int64_t k0, int64_t depth, Acc* panel) {
        Pick pixels[kContractM];
        for (int64_t m = 0; m < rows; ++m) pixels[m] = internal::OutputPixelAt(g, from, to, m0 + m);
        const T* source = x + group * in_channels * from.channel_stride;
        for (int64_t k = 0; k < depth; ++k) {
          const Pick tap = internal::TapAt(g, k0 + k, from.channel_stride, 1);
          for (int64_t m = 0; m < rows; ++m) {
            panel[k * kContractM + m] = internal::At<false>(source, from, one, pixels[m], tap);
          }
        }
      },
      [&](int64_t group, int64_t k0, int64_t depth, int64_t n0, int64_t columns, Acc* panel) {
        const T* rows = w + (group * out_channels + n0) * depth_size + k0;
        for (int64_t n = 0; n < columns; ++n) {
          for (int64_t k = 0; k < depth; ++k) panel[n * kContractK + k] = rows[n * depth_size + k];
        }
      },
      [&](int64_t group, int64_t m0, int64_t rows, int64_t n0, int64_t columns, const Acc* c) {
        for (int64_t m = 0; m < rows; ++m) {
          const int64_t channel = group * out_channels + n0;
          T* row = y + to.Offset(m0 + m) + channel * to.channel_stride;
          for (int64_t n = 0; n < columns; ++n) {
            const Acc shift = bias == nullptr ? Acc(0) : Acc(bias[channel + n]);
            row[n * to.channel_stride] = static_cast<T>(activation(c[n * kContractM + m] + shift));
          }
        }
      });
}

// dx[pixel, c] = sum over filters and taps of w[filter, c, tap] * dy[the output pixel whose tap reads it, filter]
template <class T>
void PlainConvGradInput(int threads, const ConvGeometry& g, const ValueType& dx_type, const ValueType& dy_type,
                        const T* dy, const T* w, T* dx) {
  using Acc = Accumulator<T>;
  using internal::Pick;
  const internal::Grid from(dy_type, g.spatial, g.out);
  const internal::Grid to(dx_type, g.spatial, g.in);
  const int64_t in_channels = g.in_channels / g.groups;
  const int64_t out_channels = g.out_channels / g.groups;
  const int64_t taps = g.taps();
  const bool divided = g.stride[0] * g.stride[1] * g.stride[2] > 1;
  Contract<Acc>(
      threads, g.groups, g.batch * to.pixels(), in_channels, out_channels * taps,
      [&](int64_t group, int64_t m0, int64_t rows, int64_t k0, int64_t depth, Acc* panel) {
        Pick pixels[kContractM];
        for (int64_t m = 0; m < rows; ++m) {
          pixels[m].offset = to.Unravel(m0 + m, &pixels[m].position) * from.batch_stride;
          for (size_t i = 0; i < kMaxSpatial; ++i) pixels[m].position[i] += g.pad_begin[i];
        }
        const T* source = dy + group * out_channels * from.channel_stride;
        for (int64_t k = 0; k < depth; ++k) {
          const Pick tap = internal::TapAt(g, k0 + k, from.channel_stride, -1);
          for (int64_t m = 0; m < rows; ++m) {
            panel[k * kContractM + m] = divided ? internal::At<true>(source, from, g.stride, pixels[m], tap)
                                                : internal::At<false>(source, from, g.stride, pixels[m], tap);
          }
        }
      },
      [&](int64_t group, int64_t k0, int64_t depth, int64_t n0, int64_t columns, Acc* panel) {
        for (int64_t k = 0; k < depth; ++k) {
          const int64_t filter = group * out_channels + (k0 + k) / taps;
          const T* column = w + (filter * in_channels + n0) * taps + (k0 + k) % taps;
          for (int64_t n = 0; n < columns; ++n) panel[n * kContractK + k] = column[n * taps];
        }
      },
      [&](int64_t group, int64_t m0, int64_t rows, int64_t n0, int64_t columns, const Acc* c) {
        for (int64_t m = 0; m < rows; ++m) {
          T* row = dx + to.Offset(m0 + m) + (group * in_channels + n0) * to.channel_stride;
          for (int64_t n = 0; n < columns; ++n) row[n * to.channel_stride] = static_cast<T>(c[n * kContractM + m]);
        }
      });
}

// dw[filter, c, tap] = sum over output pixels of dy[pixel, filter] * x[what the tap reads there, c]
template <class T>
void PlainConvGradWeight(int threads, const ConvGeometry& g, const ValueType& x_type, const ValueType& dy_type,
                         const T* x, const T* dy, T* dw) {
  using Acc = Accumulator<T>;
  using internal::Pick;
  const internal::Grid from(x_type, g.spatial, g.in);
  const internal::Grid to(dy_type, g.spatial, g.out);
  const int64_t in_channels = g.in_channels / g.groups;
  const int64_t out_channels = g.out_channels / g.groups;
  const int64_t row_size = in_channels * g.taps();
  const internal::Spatial one = {1, 1, 1};
  Contract<Acc>(
      threads, g.groups, row_size, out_channels, g.batch * to.pixels(),
      [&](int64_t group, int64_t m0, int64_t rows, int64_t k0, int64_t depth, Acc* panel) {
        Pick taps[kContractM];
        for (int64_t m = 0; m < rows; ++m) taps[m] = internal::TapAt(g, m0 + m, from.channel_stride, 1);
        const T* source = x + group * in_channels * from.channel_stride;
        for (int64_t k = 0; k < depth; ++k) {
          const Pick pixel = internal::OutputPixelAt(g, from, to, k0 + k);
          for (int64_t m = 0; m < rows; ++m) {
            panel[k * kContractM + m] = internal::At<false>(source, from, one, taps[m], pixel);
          }
        }
      },
      [&](int64_t group, int64_t k0, int64_t depth, int64_t n0, int64_t columns, Acc* panel) {
        for (int64_t k = 0; k < depth; ++k) {
          const T* row = dy + to.Offset(k0 + k) + (group * out_channels + n0) * to.channel_stride;
          for (int64_t n = 0; n < columns; ++n) panel[n * kContractK + k] = row[n * to.channel_stride];
        }
      },
      [&](int64_t group, int64_t m0, int64_t rows, int64_t n0, int64_t columns, const Acc* c) {
        T* block = dw + (group * out_channels + n0) * row_size + m0;
        for (int64_t n = 0; n < columns; ++n) {
          for (int64_t m = 0; m < rows; ++m) block[n * row_size + m] = static_cast<T>(c[n * kContractM + m]);
        }
      });
}

}  // namespace snug::ops
