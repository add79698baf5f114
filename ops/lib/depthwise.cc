#include "ops/lib/depthwise.h"

#include <algorithm>
#include <cstring>

#include "engine/base/parallel.h"
#include "ops/lib/isa.h"

namespace snug::ops {
namespace {

constexpr int64_t kMaxTaps = 49;
constexpr int64_t kLanes = 16;     // floats of 64 bytes
constexpr int64_t kPixels = 8;     // results of a row that are summed together: the chains that hide the latency
constexpr int64_t kMaxParts = 32;  // partial sums of a weight's gradient, whatever the number of threads
constexpr int64_t kChunkElements = 1 << 14;

using Vector __attribute__((vector_size(64))) = float;

// ---- 16 channels at a time, `count` of them real ----

SNUG_INLINE Vector Load(const float* from) {
  Vector v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
SNUG_INLINE Vector Load(const BFloat16* from) {
  using Half __attribute__((vector_size(32))) = uint16_t;
  using Word __attribute__((vector_size(64))) = uint32_t;
  Half half;
  std::memcpy(&half, from, sizeof(half));
  const Word word = __builtin_convertvector(half, Word) << 16;
  Vector v;
  std::memcpy(&v, &word, sizeof(v));
  return v;
}
template <bool kWhole, class T>
SNUG_INLINE Vector Load(const T* from, int64_t count) {
  if constexpr (kWhole) return Load(from);
  T padded[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) padded[i] = from[i];
  return Load(padded);
}

template <bool kWhole, class T>
SNUG_INLINE void Store(const Vector& v, T* to, int64_t count) {
  float values[kLanes];
  std::memcpy(values, &v, sizeof(v));
  for (int64_t i = 0; i < (kWhole ? kLanes : count); ++i) to[i] = static_cast<T>(values[i]);
}

// Calls body(channel, count, whole) for all channels: whole vectors, then the rest.
template <class Body>
SNUG_INLINE void ForChannels(int64_t channels, const Body& body) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) body(c, kLanes, std::true_type());
  if (c < channels) body(c, channels - c, std::false_type());
}

// ---- rows and taps ----

struct Tap {
  int64_t position;  // of the pixel it reads for result 0; may be negative
  int64_t offset;    // of that pixel's first channel in the data
  int64_t index;     // in the kernel, row-major
};

struct Row {
  Tap taps[kMaxTaps];
  int64_t count = 0;
  int64_t step = 1;  // pixels from one result to the next
  int64_t width;     // pixels that exist

  bool Reads(const Tap& tap, int64_t result) const {
    const int64_t at = tap.position + result * step;
    return at >= 0 && at < width;
  }
  // The results, of `results`, for which every tap reads a pixel that exists.
  void Interior(int64_t results, int64_t* begin, int64_t* end) const {
    *begin = 0;
    *end = results;
    for (int64_t t = 0; t < count; ++t) {
      const int64_t position = taps[t].position;
      if (position < 0) *begin = std::max(*begin, (-position + step - 1) / step);
      *end = std::min(*end, position >= width ? 0 : (width - 1 - position) / step + 1);
    }
    *begin = std::min(*begin, results);
    *end = std::max(*begin, *end);
  }
  // Those that read something for one result at the border.
  Row Only(int64_t result) const {
    Row row;
    row.step = step;
    row.width = width;
    for (int64_t t = 0; t < count; ++t) {
      if (Reads(taps[t], result)) row.taps[row.count++] = taps[t];
    }
    return row;
  }
};

// The taps of one row of results: y * stride - pad + tap.
Row ForwardRow(const ConvGeometry& g, int64_t sample, int64_t y) {
  Row row;
  row.step = g.stride[1];
  row.width = g.in[1];
  for (int64_t i = 0; i < g.kernel[0]; ++i) {
    const int64_t x_row = y * g.stride[0] - g.pad_begin[0] + i * g.dilation[0];
    if (x_row < 0 || x_row >= g.in[0]) continue;
    for (int64_t j = 0; j < g.kernel[1]; ++j) {
      const int64_t position = j * g.dilation[1] - g.pad_begin[1];
      const int64_t pixel = (sample * g.in[0] + x_row) * g.in[1] + position;
      row.taps[row.count++] = {position, pixel * g.in_channels, i * g.kernel[1] + j};
    }
  }
  return row;
}

// The taps of every stride-th pixel, from `phase` on, of one row of the input's gradient.
Row BackwardRow(const ConvGeometry& g, int64_t sample, int64_t x, int64_t phase) {
  Row row;
  row.width = g.out[1];
  for (int64_t i = 0; i < g.kernel[0]; ++i) {
    const int64_t steps = x + g.pad_begin[0] - i * g.dilation[0];
    if (steps < 0 || steps % g.stride[0] != 0 || steps / g.stride[0] >= g.out[0]) continue;
    for (int64_t j = 0; j < g.kernel[1]; ++j) {
      const int64_t shift = phase + g.pad_begin[1] - j * g.dilation[1];
      if (shift % g.stride[1] != 0) continue;
      const int64_t position = shift / g.stride[1];
      const int64_t pixel = (sample * g.out[0] + steps / g.stride[0]) * g.out[1] + position;
      row.taps[row.count++] = {position, pixel * g.out_channels, i * g.kernel[1] + j};
    }
  }
  return row;
}

// ---- results from taps ----

SNUG_INLINE Vector Activate(Vector v, DepthwiseActivation activation) {
  if (activation == DepthwiseActivation::kNone) return v;
  const Vector zero = {};
  v = v > zero ? v : zero;
  if (activation == DepthwiseActivation::kRelu6) {
    const Vector six = zero + 6.0F;
    v = v < six ? v : six;
  }
  return v;
}

// kCount results side by side, the first one `first`, of all channels. weights: [taps, channels]; shift: [channels].
template <int64_t kCount, class T>
SNUG_INLINE void SumTaps(const Row& row, int64_t first, const T* data, const float* weights, const float* shift,
                         DepthwiseActivation activation, int64_t channels, T* to, int64_t to_step) {
  ForChannels(channels, [&](int64_t c, int64_t count, auto whole) SNUG_LAMBDA {
    constexpr bool kWhole = decltype(whole)::value;
    Vector sums[kCount];
    const Vector start = Load<kWhole>(shift + c, count);
#pragma GCC unroll 8
    for (int64_t p = 0; p < kCount; ++p) sums[p] = start;
    for (int64_t t = 0; t < row.count; ++t) {
      const Vector weight = Load<kWhole>(weights + row.taps[t].index * channels + c, count);
      const T* from = data + row.taps[t].offset + first * row.step * channels + c;
#pragma GCC unroll 8
      for (int64_t p = 0; p < kCount; ++p) sums[p] += Load<kWhole>(from + p * row.step * channels, count) * weight;
    }
#pragma GCC unroll 8
    for (int64_t p = 0; p < kCount; ++p) Store<kWhole>(Activate(sums[p], activation), to + p * to_step + c, count);
  });
}

template <class T>
SNUG_INLINE void SumRow(const Row& row, int64_t results, const T* data, const float* weights, const float* shift,
                        DepthwiseActivation activation, int64_t channels, T* to, int64_t to_step) {
  int64_t begin, end;
  row.Interior(results, &begin, &end);
  const auto border = [&](int64_t r) SNUG_LAMBDA {
    SumTaps<1>(row.Only(r), r, data, weights, shift, activation, channels, to + r * to_step, to_step);
  };
  for (int64_t r = 0; r < begin; ++r) border(r);
  int64_t r = begin;
  for (; r + kPixels <= end; r += kPixels) {
    SumTaps<kPixels>(row, r, data, weights, shift, activation, channels, to + r * to_step, to_step);
  }
  for (; r < end; ++r) SumTaps<1>(row, r, data, weights, shift, activation, channels, to + r * to_step, to_step);
  for (; r < results; ++r) border(r);
}

// weights [taps, channels] and shift [channels], in the workspace.
template <class T>
void LayOut(const ConvGeometry& g, const T* w, const T* bias, float* weights, float* shift) {
  const int64_t channels = g.in_channels;
  const int64_t taps = g.taps();
  WithIsa([=]() SNUG_LAMBDA {
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t c = 0; c < channels; ++c) weights[t * channels + c] = w[c * taps + t];
    }
    for (int64_t c = 0; c < channels; ++c) shift[c] = bias == nullptr ? 0.0F : static_cast<float>(bias[c]);
  });
}

// ---- sums of products ----

// sums[tap, c] += sum over `pixels` results of dy * x, for kTaps taps of the row from `begin` on.
template <int64_t kTaps, class T>
SNUG_INLINE void AddProducts(const Row& row, int64_t begin, int64_t first, int64_t pixels, const T* x, const T* dy,
                             int64_t channels, float* sums) {
  ForChannels(channels, [&](int64_t c, int64_t count, auto whole) SNUG_LAMBDA {
    constexpr bool kWhole = decltype(whole)::value;
    Vector products[kTaps];
    const T* from[kTaps];
#pragma GCC unroll 9
    for (int64_t t = 0; t < kTaps; ++t) {
      const Tap& tap = row.taps[begin + t];
      products[t] = Load<kWhole>(sums + tap.index * channels + c, count);
      from[t] = x + tap.offset + first * row.step * channels + c;
    }
    for (int64_t p = 0; p < pixels; ++p) {
      const Vector gradient = Load<kWhole>(dy + (first + p) * channels + c, count);
#pragma GCC unroll 9
      for (int64_t t = 0; t < kTaps; ++t) {
        products[t] += gradient * Load<kWhole>(from[t] + p * row.step * channels, count);
      }
    }
#pragma GCC unroll 9
    for (int64_t t = 0; t < kTaps; ++t) {
      Store<kWhole>(products[t], sums + row.taps[begin + t].index * channels + c, count);
    }
  });
}

template <class T>
SNUG_INLINE void AddAllProducts(const Row& row, int64_t first, int64_t pixels, const T* x, const T* dy,
                                int64_t channels, float* sums) {
  int64_t t = 0;
  const auto take = [&](auto taps) SNUG_LAMBDA {
    constexpr int64_t kTaps = decltype(taps)::value;
    for (; t + kTaps <= row.count; t += kTaps) AddProducts<kTaps>(row, t, first, pixels, x, dy, channels, sums);
  };
  take(std::integral_constant<int64_t, 9>());
  take(std::integral_constant<int64_t, 6>());
  take(std::integral_constant<int64_t, 4>());
  take(std::integral_constant<int64_t, 1>());
}

// dy: the row of results.
template <class T>
SNUG_INLINE void AddRow(const Row& row, int64_t results, const T* x, const T* dy, int64_t channels, float* sums) {
  int64_t begin, end;
  row.Interior(results, &begin, &end);
  for (int64_t r = 0; r < begin; ++r) AddAllProducts(row.Only(r), r, 1, x, dy, channels, sums);
  for (int64_t r = begin; r < end; r += kPixels) {
    AddAllProducts(row, r, std::min(kPixels, end - r), x, dy, channels, sums);
  }
  for (int64_t r = end; r < results; ++r) AddAllProducts(row.Only(r), r, 1, x, dy, channels, sums);
}

int64_t RowsPerPart(const ConvGeometry& g) { return (g.batch * g.out[0] + kMaxParts - 1) / kMaxParts; }
int64_t Parts(const ConvGeometry& g) { return (g.batch * g.out[0] + RowsPerPart(g) - 1) / RowsPerPart(g); }

int64_t RowsPerChunk(int64_t row_elements) { return std::max<int64_t>(1, kChunkElements / row_elements); }

}  // namespace

bool IsDepthwise(const ConvGeometry& g, const ValueType& data) {
  return g.spatial == 2 && g.groups == g.in_channels && g.out_channels == g.in_channels && g.taps() <= kMaxTaps &&
         data.layout.channels_last() && (data.dtype == DType::kFloat32 || data.dtype == DType::kBFloat16);
}

int64_t DepthwiseWorkspace(const ConvGeometry& g) { return (g.taps() + 1) * g.in_channels; }
int64_t DepthwiseGradWeightWorkspace(const ConvGeometry& g) { return Parts(g) * g.taps() * g.in_channels; }

template <class T>
void DepthwiseConv(int threads, const ConvGeometry& g, const T* x, const T* w, const T* bias,
                   DepthwiseActivation activation, float* workspace, T* y) {
  const int64_t channels = g.in_channels;
  float* weights = workspace;
  float* shift = workspace + g.taps() * channels;
  LayOut(g, w, bias, weights, shift);
  const int64_t row_elements = g.out[1] * channels;
  ParallelFor(threads, g.batch * g.out[0], RowsPerChunk(row_elements), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const Row row = ForwardRow(g, r / g.out[0], r % g.out[0]);
      WithIsa([&]() SNUG_LAMBDA {
        SumRow(row, g.out[1], x, weights, shift, activation, channels, y + r * row_elements, channels);
      });
    }
  });
}

template <class T>
void DepthwiseGradInput(int threads, const ConvGeometry& g, const T* dy, const T* w, float* workspace, T* dx) {
  const int64_t channels = g.in_channels;
  float* weights = workspace;
  float* shift = workspace + g.taps() * channels;
  LayOut<T>(g, w, nullptr, weights, shift);
  const int64_t row_elements = g.in[1] * channels;
  ParallelFor(threads, g.batch * g.in[0], RowsPerChunk(row_elements), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t phase = 0; phase < std::min(g.stride[1], g.in[1]); ++phase) {
        const Row row = BackwardRow(g, r / g.in[0], r % g.in[0], phase);
        const int64_t results = (g.in[1] - phase - 1) / g.stride[1] + 1;
        WithIsa([&]() SNUG_LAMBDA {
          SumRow(row, results, dy, weights, shift, DepthwiseActivation::kNone, channels,
                 dx + r * row_elements + phase * channels, g.stride[1] * channels);
        });
      }
    }
  });
}

template <class T>
void DepthwiseGradWeight(int threads, const ConvGeometry& g, const T* x, const T* dy, float* workspace, T* dw) {
  const int64_t channels = g.in_channels;
  const int64_t size = g.taps() * channels;
  ParallelFor(threads, g.batch * g.out[0], RowsPerPart(g), [&](int64_t begin, int64_t end) {
    float* sums = workspace + begin / RowsPerPart(g) * size;
    std::fill_n(sums, size, 0.0F);
    for (int64_t r = begin; r < end; ++r) {
      const Row row = ForwardRow(g, r / g.out[0], r % g.out[0]);
      WithIsa([&]() SNUG_LAMBDA { AddRow(row, g.out[1], x, dy + r * g.out[1] * channels, channels, sums); });
    }
  });
  // The parts are added in order, and [taps, channels] becomes [channels, taps].
  const int64_t parts = Parts(g);
  const int64_t taps = g.taps();
  ParallelFor(threads, channels, 64, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t t = 0; t < taps; ++t) {
        float* total = workspace + t * channels;
        for (int64_t part = 1; part < parts; ++part) {
          const float* more = total + part * size;
          for (int64_t c = begin; c < end; ++c) total[c] += more[c];
        }
        for (int64_t c = begin; c < end; ++c) dw[c * taps + t] = static_cast<T>(total[c]);
      }
    });
  });
}

#define SNUG_DEPTHWISE(T)                                                                                          \
  template void DepthwiseConv(int, const ConvGeometry&, const T*, const T*, const T*, DepthwiseActivation, float*, \
                              T*);                                                                                 \
  template void DepthwiseGradInput(int, const ConvGeometry&, const T*, const T*, float*, T*);                      \
  template void DepthwiseGradWeight(int, const ConvGeometry&, const T*, const T*, float*, T*);
SNUG_DEPTHWISE(float)
SNUG_DEPTHWISE(BFloat16)
#undef SNUG_DEPTHWISE

}  // namespace snug::ops
