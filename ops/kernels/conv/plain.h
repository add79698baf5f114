// The plain kernels of convolution, for any layout of the data (by strides) and row-major weights: each of the three
// products is gathered into small panels (implicit im2col, one group at a time) and multiplied there.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/graph/value_type.h"
#include "ops/kernels/conv/contract.h"
#include "ops/kernels/conv/geometry.h"

namespace snug::core::ops {

namespace internal {

using Spatial = std::array<int64_t, kMaxSpatial>;

// Says where a value of [batch, channels, spatial...] lies in memory.
struct Grid {
  int64_t batch_stride;
  int64_t channel_stride;
  Spatial size;
  Spatial stride = {0, 0, 0};

  Grid(const ValueType& type, int spatial, const Spatial& sizes) : size(sizes) {
    const Strides strides = type.strides();
    batch_stride = strides[0];
    channel_stride = strides[1];
    for (int i = 0; i < spatial; ++i) stride[static_cast<size_t>(i)] = strides[static_cast<size_t>(i) + 2];
  }
  int64_t pixels() const { return size[0] * size[1] * size[2]; }
  int64_t Offset(const Spatial& at) const { return at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2]; }
};

// Counts through [outer, spatial...] in row-major order: the pixels of a batch, or the taps of the channels.
struct Cursor {
  Spatial size;
  int64_t outer;
  Spatial at;

  Cursor(const Spatial& sizes, int64_t index) : size(sizes) {
    for (size_t i = kMaxSpatial; i-- > 0;) {
      at[i] = index % size[i];
      index /= size[i];
    }
    outer = index;
  }
  void Next() {
    for (size_t i = kMaxSpatial; i-- > 0;) {
      if (++at[i] < size[i]) return;
      at[i] = 0;
    }
    ++outer;
  }
};

// An element is picked by the sum of two coordinates: a pixel's and a tap's. This is one of them, as a position and as
// an offset in memory. An element whose position is outside (in the padding) is 0.
struct Pick {
  int64_t offset;
  Spatial position;
};

template <int64_t kCount>
struct Lanes {
  alignas(64) int64_t offset[kCount];
  alignas(64) int64_t position[kMaxSpatial][kCount];

  // Lanes from `count` on are so far outside that no tap brings them in.
  template <class PickOf>
  Lanes(const Cursor& first, int64_t count, const PickOf& pick_of) {
    Cursor cursor = first;
    for (int64_t m = 0; m < kCount; ++m) {
      const Pick pick = m < count ? pick_of(cursor) : Pick{0, {INT64_MIN / 2, 0, 0}};
      offset[m] = pick.offset;
      for (size_t i = 0; i < kMaxSpatial; ++i) position[i][m] = pick.position[i];
      cursor.Next();
    }
  }
};

// Sets panel[k * kCount + m] to the element that lane m and the k-th pick from `first` on point at.
template <int64_t kCount, class T, class PickOf>
void GatherPanel(const T* data, const Spatial& size, const Lanes<kCount>& lanes, const Cursor& first, int64_t depth,
                 const PickOf& pick_of, Accumulator<T>* panel) {
  WithIsa([&]() SNUG_LAMBDA {
    Cursor cursor = first;
    for (int64_t k = 0; k < depth; ++k) {
      const Pick pick = pick_of(cursor);
      cursor.Next();
      Accumulator<T>* row = panel + k * kCount;
      for (int64_t m = 0; m < kCount; ++m) {  // branches would keep this from becoming gathers
        bool inside = true;
        for (size_t i = 0; i < kMaxSpatial; ++i) {
          inside &= static_cast<uint64_t>(lanes.position[i][m] + pick.position[i]) < static_cast<uint64_t>(size[i]);
        }
        const Accumulator<T> element = data[inside ? lanes.offset[m] + pick.offset : 0];
        row[m] = inside ? element : Accumulator<T>(0);
      }
    }
  });
}

// Returns where tap `at` of channel `at.outer` reads, relative to its pixel.
inline Pick TapPick(const ConvGeometry& g, const Grid& x, const Cursor& at) {
  Pick pick;
  for (size_t i = 0; i < kMaxSpatial; ++i) pick.position[i] = at.at[i] * g.dilation[i];
  pick.offset = at.outer * x.channel_stride + x.Offset(pick.position);
  return pick;
}

// Returns where the taps of an output pixel start.
inline Pick OutputPixelPick(const ConvGeometry& g, const Grid& x, const Cursor& at) {
  Pick pick;
  for (size_t i = 0; i < kMaxSpatial; ++i) pick.position[i] = at.at[i] * g.stride[i] - g.pad_begin[i];
  pick.offset = at.outer * x.batch_stride + x.Offset(pick.position);
  return pick;
}

}  // namespace internal

// Computes y = conv(x, w) + bias. The bias may be null.
template <class T>
void PlainConv(int threads, const ConvGeometry& g, const ValueType& x_type, const ValueType& y_type, const T* x,
               const T* w, const T* bias, T* y) {
  using Acc = Accumulator<T>;
  using internal::Cursor;
  const internal::Grid from(x_type, g.spatial, g.in);
  const internal::Grid to(y_type, g.spatial, g.out);
  const int64_t in_channels = g.in_channels / g.groups;
  const int64_t out_channels = g.out_channels / g.groups;
  const int64_t depth_size = in_channels * g.taps();
  const auto pixel_pick = [&](const Cursor& at) { return internal::OutputPixelPick(g, from, at); };
  const auto tap_pick = [&](const Cursor& at) { return internal::TapPick(g, from, at); };
  Contract<Acc>(
      threads, g.groups, g.batch * to.pixels(), out_channels, depth_size,
      [&](int64_t group, int64_t m0, int64_t rows, int64_t k0, int64_t depth, Acc* panel) {
        const internal::Lanes<kPanel<Acc>> pixels(Cursor(g.out, m0), rows, pixel_pick);
        internal::GatherPanel(x + group * in_channels * from.channel_stride, g.in, pixels, Cursor(g.kernel, k0), depth,
                              tap_pick, panel);
      },
      [&](int64_t group, int64_t k0, int64_t depth, int64_t n0, int64_t columns, Acc* panel) {
        const T* rows = w + (group * out_channels + n0) * depth_size + k0;
        for (int64_t n = 0; n < columns; ++n) {
          for (int64_t k = 0; k < depth; ++k) panel[n * kContractK + k] = rows[n * depth_size + k];
        }
      },
      [&](int64_t group, int64_t m0, int64_t rows, int64_t n0, int64_t columns, const Acc* c) {
        const int64_t channel = group * out_channels + n0;
        Cursor pixel(g.out, m0);
        for (int64_t m = 0; m < rows; ++m, pixel.Next()) {
          T* row = y + pixel.outer * to.batch_stride + to.Offset(pixel.at) + channel * to.channel_stride;
          for (int64_t n = 0; n < columns; ++n) {
            const Acc shift = bias == nullptr ? Acc(0) : Acc(bias[channel + n]);
            row[n * to.channel_stride] = static_cast<T>(c[n * kPanel<Acc> + m] + shift);
          }
        }
      });
}

namespace internal {

// A set of input pixels whose positions leave the same remainder by the stride in every dimension. They are read by the
// same taps (every `tap_step`-th from `tap_begin` on), and neighbours among them by neighbouring output pixels.
struct StridePhase {
  Spatial begin;  // the first such pixel; the others are whole strides further
  Spatial pixels;
  Spatial tap_begin, tap_step, taps;

  StridePhase(const ConvGeometry& g, const Spatial& remainder) : begin(remainder) {
    for (size_t i = 0; i < kMaxSpatial; ++i) {
      pixels[i] = g.in[i] <= begin[i] ? 0 : (g.in[i] - begin[i] - 1) / g.stride[i] + 1;
      const auto reads = [&](int64_t tap) {
        return (begin[i] + g.pad_begin[i] - tap * g.dilation[i]) % g.stride[i] == 0;
      };
      const int64_t period = std::min(g.stride[i], g.kernel[i]);
      tap_begin[i] = 0;
      while (tap_begin[i] < period && !reads(tap_begin[i])) ++tap_begin[i];
      tap_step[i] = 1;
      while (tap_step[i] < g.kernel[i] && tap_step[i] * g.dilation[i] % g.stride[i] != 0) ++tap_step[i];
      taps[i] = tap_begin[i] == period ? 0 : (g.kernel[i] - tap_begin[i] - 1) / tap_step[i] + 1;
    }
  }
};

template <class T>
void PlainConvGradInputPhase(int threads, const ConvGeometry& g, const Grid& to, const Grid& from,
                             const StridePhase& phase, const T* dy, const T* w, T* dx) {
  using Acc = Accumulator<T>;
  const int64_t in_channels = g.in_channels / g.groups;
  const int64_t out_channels = g.out_channels / g.groups;
  const int64_t taps = phase.taps[0] * phase.taps[1] * phase.taps[2];
  const auto pixel_pick = [&](const Cursor& at) {
    return Pick{at.outer * from.batch_stride + from.Offset(at.at), at.at};
  };
  const auto kernel_position = [&](const Cursor& at, size_t i) {
    return phase.tap_begin[i] + at.at[i] * phase.tap_step[i];
  };
  const auto tap_pick = [&](const Cursor& at) {
    Pick pick;
    for (size_t i = 0; i < kMaxSpatial; ++i) {
      pick.position[i] = (phase.begin[i] + g.pad_begin[i] - kernel_position(at, i) * g.dilation[i]) / g.stride[i];
    }
    pick.offset = at.outer * from.channel_stride + from.Offset(pick.position);
    return pick;
  };
  Contract<Acc>(
      threads, g.groups, g.batch * phase.pixels[0] * phase.pixels[1] * phase.pixels[2], in_channels,
      out_channels * taps,
      [&](int64_t group, int64_t m0, int64_t rows, int64_t k0, int64_t depth, Acc* panel) {
        const Lanes<kPanel<Acc>> pixels(Cursor(phase.pixels, m0), rows, pixel_pick);
        GatherPanel(dy + group * out_channels * from.channel_stride, g.out, pixels, Cursor(phase.taps, k0), depth,
                    tap_pick, panel);
      },
      [&](int64_t group, int64_t k0, int64_t depth, int64_t n0, int64_t columns, Acc* panel) {
        Cursor tap(phase.taps, k0);
        for (int64_t k = 0; k < depth; ++k, tap.Next()) {
          const int64_t filter = group * out_channels + tap.outer;
          const int64_t index =
              (kernel_position(tap, 0) * g.kernel[1] + kernel_position(tap, 1)) * g.kernel[2] + kernel_position(tap, 2);
          const T* column = w + (filter * in_channels + n0) * g.taps() + index;
          for (int64_t n = 0; n < columns; ++n) panel[n * kContractK + k] = column[n * g.taps()];
        }
      },
      [&](int64_t group, int64_t m0, int64_t rows, int64_t n0, int64_t columns, const Acc* c) {
        Cursor pixel(phase.pixels, m0);
        for (int64_t m = 0; m < rows; ++m, pixel.Next()) {
          Spatial at;
          for (size_t i = 0; i < kMaxSpatial; ++i) at[i] = phase.begin[i] + pixel.at[i] * g.stride[i];
          T* row = dx + pixel.outer * to.batch_stride + to.Offset(at) + (group * in_channels + n0) * to.channel_stride;
          for (int64_t n = 0; n < columns; ++n) row[n * to.channel_stride] = static_cast<T>(c[n * kPanel<Acc> + m]);
        }
      });
}

}  // namespace internal

// Computes dx[pixel, c] = sum over filters and taps of w[filter, c, tap] * dy[the output pixel whose tap reads it,
// filter].
template <class T>
void PlainConvGradInput(int threads, const ConvGeometry& g, const ValueType& dx_type, const ValueType& dy_type,
                        const T* dy, const T* w, T* dx) {
  const internal::Grid from(dy_type, g.spatial, g.out);
  const internal::Grid to(dx_type, g.spatial, g.in);
  // There are never more phases than pixels: further ones would be empty.
  internal::Spatial phases;
  for (size_t i = 0; i < kMaxSpatial; ++i) phases[i] = std::min(g.stride[i], g.in[i]);
  for (internal::Cursor phase(phases, 0); phase.outer == 0; phase.Next()) {
    internal::PlainConvGradInputPhase(threads, g, to, from, internal::StridePhase(g, phase.at), dy, w, dx);
  }
}

// Computes dw[filter, c, tap] = sum over output pixels of dy[pixel, filter] * x[what the tap reads there, c].
template <class T>
void PlainConvGradWeight(int threads, const ConvGeometry& g, const ValueType& x_type, const ValueType& dy_type,
                         const T* x, const T* dy, T* dw) {
  using Acc = Accumulator<T>;
  using internal::Cursor;
  const internal::Grid from(x_type, g.spatial, g.in);
  const internal::Grid to(dy_type, g.spatial, g.out);
  const int64_t in_channels = g.in_channels / g.groups;
  const int64_t out_channels = g.out_channels / g.groups;
  const int64_t row_size = in_channels * g.taps();
  const auto pixel_pick = [&](const Cursor& at) { return internal::OutputPixelPick(g, from, at); };
  const auto tap_pick = [&](const Cursor& at) { return internal::TapPick(g, from, at); };
  Contract<Acc>(
      threads, g.groups, row_size, out_channels, g.batch * to.pixels(),
      [&](int64_t group, int64_t m0, int64_t rows, int64_t k0, int64_t depth, Acc* panel) {
        const internal::Lanes<kPanel<Acc>> taps(Cursor(g.kernel, m0), rows, tap_pick);
        internal::GatherPanel(x + group * in_channels * from.channel_stride, g.in, taps, Cursor(g.out, k0), depth,
                              pixel_pick, panel);
      },
      [&](int64_t group, int64_t k0, int64_t depth, int64_t n0, int64_t columns, Acc* panel) {
        const int64_t channel = group * out_channels + n0;
        Cursor pixel(g.out, k0);
        for (int64_t k = 0; k < depth; ++k, pixel.Next()) {
          const T* row = dy + pixel.outer * to.batch_stride + to.Offset(pixel.at) + channel * to.channel_stride;
          for (int64_t n = 0; n < columns; ++n) panel[n * kContractK + k] = row[n * to.channel_stride];
        }
      },
      [&](int64_t group, int64_t m0, int64_t rows, int64_t n0, int64_t columns, const Acc* c) {
        T* block = dw + (group * out_channels + n0) * row_size + m0;
        for (int64_t n = 0; n < columns; ++n) {
          for (int64_t m = 0; m < rows; ++m) block[n * row_size + m] = static_cast<T>(c[n * kPanel<Acc> + m]);
        }
      });
}

}  // namespace snug::core::ops
