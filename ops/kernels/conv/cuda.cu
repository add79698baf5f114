#include <array>

#include "engine/base/status.h"
#include "ops/kernels/conv/cuda.h"
#include "ops/kernels/matmul/cuda_gemm.h"
#include "ops/kit/dispatch.h"

namespace snug::core::ops {
namespace {

using Spatial = std::array<int64_t, kMaxSpatial>;

// Says where data of [batch, channels, spatial...] lies in memory.
struct Grid {
  int64_t batch_stride, channel_stride;
  Spatial size, stride = {0, 0, 0};

  Grid(const ValueType& type, int spatial, const Spatial& sizes) : size(sizes) {
    const Strides strides = type.strides();
    batch_stride = strides[0];
    channel_stride = strides[1];
    for (int i = 0; i < spatial; ++i) stride[static_cast<size_t>(i)] = strides[static_cast<size_t>(i) + 2];
  }
  SNUG_HOST_DEVICE int64_t Offset(const Spatial& at) const {
    return at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2];
  }
  SNUG_HOST_DEVICE bool Has(const Spatial& at) const {
    return at[0] >= 0 && at[0] < size[0] && at[1] >= 0 && at[1] < size[1] && at[2] >= 0 && at[2] < size[2];
  }
};

// Says where weights of [filters, channels of a group, taps] lie in memory.
struct WeightGrid {
  int64_t taps, channel_stride, tap_stride;

  WeightGrid(const ValueType& type, const ConvGeometry& g) : taps(g.taps()) {
    const bool last = type.layout.channels_last();
    channel_stride = last ? 1 : taps;
    tap_stride = last ? g.in_channels / g.groups : 1;
  }
  // Returns where number i in [channels, taps] lies within its filter.
  SNUG_HOST_DEVICE int64_t Offset(int64_t i) const {
    return tap_stride == 1 && channel_stride == taps ? i : i / taps * channel_stride + i % taps * tap_stride;
  }
};

// The position at an index that counts through [outer, size...] in row-major order.
struct GridIndex {
  int64_t outer;
  Spatial at;
};
__device__ GridIndex GridIndexOf(const Spatial& size, int64_t index) {
  const int64_t rest = index / size[2];
  const int64_t outer = rest / size[1];
  return {outer / size[0], {outer % size[0], rest % size[1], index % size[2]}};
}

// Returns which input pixel tap `tap` of output pixel `out` reads.
__device__ Spatial InputOf(const ConvGeometry& g, const Spatial& out, const Spatial& tap) {
  Spatial in = {};
  for (size_t i = 0; i < kMaxSpatial; ++i) in[i] = out[i] * g.stride[i] - g.pad_begin[i] + tap[i] * g.dilation[i];
  return in;
}

// y [pixels of all samples, filters] = x's taps [.., channels * taps] w^T, one product for each group.
template <class T>
struct ForwardProduct {
  using Value = T;
  static constexpr bool kAAlongSum = false, kBAlongSum = true;
  using A = Accumulator<T>;
  struct Column {
    const T* weights;
  };
  struct Row {
    const T* channels;
    Spatial out;
  };

  ConvGeometry g;
  Grid x, y;
  WeightGrid w;
  int64_t filters, channels;  // in one group
  const T *data, *weights, *bias;
  T* result;
  Activation activation;

  __device__ Row row(int64_t group, int64_t m) const {
    const GridIndex pixel = GridIndexOf(g.out, m);
    return {data + pixel.outer * x.batch_stride + group * channels * x.channel_stride, pixel.at};
  }
  __device__ Column column(int64_t group, int64_t n) const {
    return {weights + (group * filters + n) * channels * g.kernel[0] * g.kernel[1] * g.kernel[2]};
  }
  __device__ A a(const Row& row, int64_t k) const {
    const GridIndex tap = GridIndexOf(g.kernel, k);
    const Spatial in = InputOf(g, row.out, tap.at);
    return x.Has(in) ? static_cast<A>(row.channels[tap.outer * x.channel_stride + x.Offset(in)]) : A(0);
  }
  __device__ A b(const Column& column, int64_t k) const { return static_cast<A>(column.weights[w.Offset(k)]); }
  __device__ void Store(int64_t group, int64_t m, int64_t n, A sum) const {
    const GridIndex pixel = GridIndexOf(g.out, m);
    const int64_t filter = group * filters + n;
    if (bias != nullptr) sum += static_cast<A>(bias[filter]);
    result[pixel.outer * y.batch_stride + filter * y.channel_stride + y.Offset(pixel.at)] =
        static_cast<T>(Activate(activation, sum));
  }
};

// dx [pixels of all samples, channels] = dy's taps [.., filters * taps] w.
template <class T>
struct GradInputProduct {
  using Value = T;
  static constexpr bool kAAlongSum = false, kBAlongSum = false;
  using A = Accumulator<T>;
  struct Column {
    const T* weights;
  };
  struct Row {
    const T* filters;
    Spatial in;
  };

  ConvGeometry g;
  Grid x, y;
  WeightGrid w;
  int64_t filters, channels;
  const T *grad, *weights;
  T* result;

  __device__ Row row(int64_t group, int64_t m) const {
    const GridIndex pixel = GridIndexOf(g.in, m);
    return {grad + pixel.outer * y.batch_stride + group * filters * y.channel_stride, pixel.at};
  }
  __device__ Column column(int64_t group, int64_t n) const {
    return {weights + group * filters * channels * w.taps + n * w.channel_stride};
  }
  __device__ A a(const Row& row, int64_t k) const {
    const GridIndex tap = GridIndexOf(g.kernel, k);
    Spatial out = {};
    for (size_t i = 0; i < kMaxSpatial; ++i) {
      const int64_t distance = row.in[i] + g.pad_begin[i] - tap.at[i] * g.dilation[i];
      if (distance < 0 || distance % g.stride[i] != 0) return A(0);
      out[i] = distance / g.stride[i];
    }
    return y.Has(out) ? static_cast<A>(row.filters[tap.outer * y.channel_stride + y.Offset(out)]) : A(0);
  }
  __device__ A b(const Column& column, int64_t k) const {
    return static_cast<A>(column.weights[k / w.taps * channels * w.taps + k % w.taps * w.tap_stride]);
  }
  __device__ void Store(int64_t group, int64_t m, int64_t n, A sum) const {
    const GridIndex pixel = GridIndexOf(g.in, m);
    const int64_t channel = group * channels + n;
    result[pixel.outer * x.batch_stride + channel * x.channel_stride + x.Offset(pixel.at)] = static_cast<T>(sum);
  }
};

// dw [filters, channels * taps] = dy^T [filters, pixels of all samples] x's taps.
template <class T>
struct GradWeightProduct {
  using Value = T;
  static constexpr bool kAAlongSum = true, kBAlongSum = true;
  using A = Accumulator<T>;
  struct Row {
    const T* filter;
  };
  struct Column {
    const T* channel;
    Spatial tap;
  };

  ConvGeometry g;
  Grid x, y;
  WeightGrid w;
  int64_t filters, channels;
  const T *data, *grad;
  T* result;

  __device__ Row row(int64_t group, int64_t m) const { return {grad + (group * filters + m) * y.channel_stride}; }
  __device__ Column column(int64_t group, int64_t n) const {
    const GridIndex tap = GridIndexOf(g.kernel, n);
    return {data + (group * channels + tap.outer) * x.channel_stride, tap.at};
  }
  __device__ A a(const Row& row, int64_t k) const {
    const GridIndex pixel = GridIndexOf(g.out, k);
    return static_cast<A>(row.filter[pixel.outer * y.batch_stride + y.Offset(pixel.at)]);
  }
  __device__ A b(const Column& column, int64_t k) const {
    const GridIndex pixel = GridIndexOf(g.out, k);
    const Spatial in = InputOf(g, pixel.at, column.tap);
    return x.Has(in) ? static_cast<A>(column.channel[pixel.outer * x.batch_stride + x.Offset(in)]) : A(0);
  }
  __device__ void Store(int64_t group, int64_t m, int64_t n, A sum) const {
    result[(group * filters + m) * channels * w.taps + w.Offset(n)] = static_cast<T>(sum);
  }
};

int64_t Pixels(const Spatial& size) { return size[0] * size[1] * size[2]; }

CudaGemmSize ForwardSize(const ConvGeometry& g) {
  return {g.batch * Pixels(g.out), g.out_channels / g.groups, g.in_channels / g.groups * g.taps(), g.groups};
}
CudaGemmSize GradInputSize(const ConvGeometry& g) {
  return {g.batch * Pixels(g.in), g.in_channels / g.groups, g.out_channels / g.groups * g.taps(), g.groups};
}
CudaGemmSize GradWeightSize(const ConvGeometry& g) {
  return {g.out_channels / g.groups, g.in_channels / g.groups * g.taps(), g.batch * Pixels(g.out), g.groups};
}

}  // namespace

int64_t OwnConvWorkspace(const ConvGeometry& g, DType dtype) { return ForwardSize(g).WorkspaceBytes(dtype); }
int64_t OwnConvGradInputWorkspace(const ConvGeometry& g, DType dtype) { return GradInputSize(g).WorkspaceBytes(dtype); }
int64_t OwnConvGradWeightWorkspace(const ConvGeometry& g, DType dtype) {
  return GradWeightSize(g).WorkspaceBytes(dtype);
}

absl::Status OwnConvCuda(const KernelContext& k, const ConvGeometry& g, Activation activation) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const ForwardProduct<T> product = {.g = g,
                                       .x = Grid(k.input_type(0), g.spatial, g.in),
                                       .y = Grid(k.output_type(0), g.spatial, g.out),
                                       .w = WeightGrid(k.input_type(1), g),
                                       .filters = g.out_channels / g.groups,
                                       .channels = g.in_channels / g.groups,
                                       .data = k.input<T>(0),
                                       .weights = k.input<T>(1),
                                       .bias = k.has_input(2) ? k.input<T>(2) : nullptr,
                                       .result = k.output<T>(0),
                                       .activation = activation};
    return RunGemm(k, product, ForwardSize(g));
  });
}

absl::Status OwnConvGradInputCuda(const KernelContext& k, const ConvGeometry& g) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const GradInputProduct<T> product = {.g = g,
                                         .x = Grid(k.output_type(0), g.spatial, g.in),
                                         .y = Grid(k.input_type(0), g.spatial, g.out),
                                         .w = WeightGrid(k.input_type(1), g),
                                         .filters = g.out_channels / g.groups,
                                         .channels = g.in_channels / g.groups,
                                         .grad = k.input<T>(0),
                                         .weights = k.input<T>(1),
                                         .result = k.output<T>(0)};
    return RunGemm(k, product, GradInputSize(g));
  });
}

absl::Status OwnConvGradWeightCuda(const KernelContext& k, const ConvGeometry& g) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const GradWeightProduct<T> product = {.g = g,
                                          .x = Grid(k.input_type(0), g.spatial, g.in),
                                          .y = Grid(k.input_type(1), g.spatial, g.out),
                                          .w = WeightGrid(k.output_type(0), g),
                                          .filters = g.out_channels / g.groups,
                                          .channels = g.in_channels / g.groups,
                                          .data = k.input<T>(0),
                                          .grad = k.input<T>(1),
                                          .result = k.output<T>(0)};
    return RunGemm(k, product, GradWeightSize(g));
  });
}

}  // namespace snug::core::ops
