// layer_norm: normalises each row (the last `axes` axes) by its own mean and variance; and its gradient. Rows are
// contiguous; short ones are done as columns of a tile. The gradients of weight and bias are summed over chunks of
// rows, whose size follows from the shape, and the chunks' sums in order, so the bits are the same on any number of
// threads.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"
#include "ops/layer_context.h"
#include "ops/nn/norm_rows.h"
#include "ops/nn/row_tile.h"
#include "ops/nn/rows_cuda.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::layer_norm {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckRowNorm<proto::LayerNorm>(c));
  const ValueType& x = c.input(0);
  const int64_t axes = c.options<proto::LayerNorm>().axes();
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (c.has_input(i)) SNUG_RETURN_IF_ERROR(c.CheckShape(i, ShapeOfRow(x.shape, axes)));
  }
  c.SetOutput(0, x);
  for (const int statistic : {1, 2}) c.SetOutput(statistic, Float32PortType(x.dtype), ShapeOfRows(x.shape, axes));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckRowNorm<proto::LayerNorm>(c));
  const ValueType& x = c.input(0);
  const int64_t axes = c.options<proto::LayerNorm>().axes();
  const Shape normalized = ShapeOfRow(x.shape, axes);
  if (c.has_input(1)) SNUG_RETURN_IF_ERROR(c.CheckShape(1, normalized));
  for (const int statistic : {2, 3}) SNUG_RETURN_IF_ERROR(c.CheckShape(statistic, ShapeOfRows(x.shape, axes)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(4, x.shape));
  c.SetOutput(0, c.input(4));
  for (const int gradient : {1, 2}) c.SetOutput(gradient, Float32PortType(x.dtype), normalized);
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) {
  const auto& options = c.options<proto::LayerNorm>();
  std::vector<ValueId> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
  const bool valid = inputs.size() == 1 && options.axes() >= 1 && options.axes() < c.type(inputs[0]).shape.rank();
  if (valid && options.affine()) {  // otherwise shape inference says what is wrong
    const Shape shape = ShapeOfRow(c.type(inputs[0]).shape, options.axes());
    inputs.push_back(
        c.Parameter({.name = "weight", .shape = shape, .init = ParameterSpec::Init::kConstant, .value = 1}));
    inputs.push_back(c.Parameter({.name = "bias", .shape = shape, .init = ParameterSpec::Init::kConstant}));
  }
  c.SetOutput(0, c.Op("layer_norm", inputs, c.options_handle()));
  return c.status();
}

absl::Status Gradient(GradContext& g) {
  const std::vector<ValueId> grads =
      g.Ops("layer_norm_grad",
            {g.input(0), g.has_input(1) ? g.input(1) : ValueId(), g.output(1), g.output(2), g.output_grad(0)},
            g.options_handle());
  g.SetInputGrads(grads);
  return g.status();
}

absl::Status PrepareGrad(PrepareContext& c) {  // makes room for the chunks' sums: [chunks][2][width]
  const ValueType& x = c.types().input(0);
  const NormRows view(x, c.options<proto::LayerNorm>().axes());
  c.SetWorkspaceBytes(view.chunks * 2 * view.width * SizeOf(Float32PortType(x.dtype)));
  return absl::OkStatus();
}

Cost CostOfNode(const NodeTypes& types) { return {.flops = 8.0 * static_cast<double>(types.input(0).num_elements())}; }
Cost CostOfGrad(const NodeTypes& types) { return {.flops = 14.0 * static_cast<double>(types.input(0).num_elements())}; }

template <class T>
struct ForwardCall {
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  explicit ForwardCall(const KernelContext& k)
      : x(k.input<T>(0)),
        weight(k.has_input(1) ? k.input<S>(1) : nullptr),
        bias(k.has_input(2) ? k.input<S>(2) : nullptr),
        y(k.output<T>(0)),
        means(k.output<S>(1)),
        inv_stds(k.output<S>(2)),
        rows(k.input_type(0), k.options<proto::LayerNorm>().axes()),
        epsilon(k.options<proto::LayerNorm>().epsilon()) {}
  const T* x;
  const S *weight, *bias;  // [width], or null
  T* y;                    // may be x
  S *means, *inv_stds;     // [rows]
  NormRows rows;
  double epsilon;
};

// Does `count` rows, kTileRows at most.
template <Isa kIsa, class T>
SNUG_INLINE void ForwardRows(const ForwardCall<T>& call, int64_t row, int64_t count) {
  using A = Accumulator<T>;
  const int64_t n = call.rows.width;
  const A scale = A(1) / static_cast<A>(n);
  const A epsilon = static_cast<A>(call.epsilon);
  const auto* weight = call.weight;
  const auto* bias = call.bias;
  const T* x = call.x + row * n;
  T* y = call.y + row * n;
  alignas(64) A mean[kTileRows], inv_std[kTileRows];
  SumRows<kIsa, 1>(count, n, mean,
                   [=](int64_t j, int64_t i) SNUG_LAMBDA { return std::array<A, 1>{static_cast<A>(x[j * n + i])}; });
  for (int64_t j = 0; j < count; ++j) mean[j] *= scale;
  SumRows<kIsa, 1>(count, n, inv_std, [=, &mean](int64_t j, int64_t i) SNUG_LAMBDA {
    const A d = static_cast<A>(x[j * n + i]) - mean[j];
    return std::array<A, 1>{d * d};
  });
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < kTileRows; ++j) inv_std[j] = A(1) / std::sqrt(inv_std[j] * scale + epsilon);
  for (int64_t j = 0; j < count; ++j) {
    const A of_row = mean[j];
    const A factor = inv_std[j];
    const T* a = x + j * n;
    T* b = y + j * n;
    if (weight != nullptr && bias != nullptr) {
      SNUG_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        b[i] = static_cast<T>((static_cast<A>(a[i]) - of_row) * factor * weight[i] + bias[i]);
      }
    } else {
      for (int64_t i = 0; i < n; ++i) {
        A v = (static_cast<A>(a[i]) - of_row) * factor;
        if (weight != nullptr) v *= weight[i];
        if (bias != nullptr) v += bias[i];
        b[i] = static_cast<T>(v);
      }
    }
  }
  std::copy_n(mean, count, call.means + row);
  std::copy_n(inv_std, count, call.inv_stds + row);
}

// Does `count` short rows.
template <Isa kIsa, class T>
SNUG_INLINE void ForwardTile(const ForwardCall<T>& call, int64_t row, int64_t count) {
  using A = Accumulator<T>;
  const int64_t n = call.rows.width;
  const A scale = A(1) / static_cast<A>(n);
  const A epsilon = static_cast<A>(call.epsilon);
  const auto* weight = call.weight;
  const auto* bias = call.bias;
  RowTile<A> tile;
  A* x = tile.at;
  LoadRows<kIsa>(call.x + row * n, n, n, count, call.x + call.rows.rows * n, x);
  alignas(64) A mean[kTileRows], inv_std[kTileRows];
  SumTile(n, mean, [=](int64_t, int64_t at) SNUG_LAMBDA { return x[at]; });
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < kTileRows; ++j) mean[j] *= scale;
  for (int64_t i = 0; i < n; ++i) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) x[i * kTileRows + j] -= mean[j];
  }
  SumTile(n, inv_std, [=](int64_t, int64_t at) SNUG_LAMBDA { return x[at] * x[at]; });
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < kTileRows; ++j) inv_std[j] = A(1) / std::sqrt(inv_std[j] * scale + epsilon);
  for (int64_t i = 0; i < n; ++i) {
    const A w = weight != nullptr ? weight[i] : A(1);
    const A added = bias != nullptr ? bias[i] : A(0);
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) x[i * kTileRows + j] = x[i * kTileRows + j] * inv_std[j] * w + added;
  }
  StoreRows<kIsa>(static_cast<const A*>(x), n, count, call.y + row * n, n);
  std::copy_n(mean, count, call.means + row);
  std::copy_n(inv_std, count, call.inv_stds + row);
}

template <class T>
void Forward(const KernelContext& k) {
  const ForwardCall<T> call(k);
  const int64_t rows = std::max<int64_t>(1, kNormChunk / std::max<int64_t>(1, call.rows.width));
  if (call.rows.width <= kShortRow) {
    ForEachRowTile(k.threads(), call.rows.rows, rows,
                   [=](auto isa, int64_t row, int64_t count) SNUG_LAMBDA { ForwardTile<isa()>(call, row, count); });
    return;
  }
  ParallelFor(k.threads(), call.rows.rows, rows, [=](int64_t begin, int64_t end) {
    const int64_t together = RowsTogether(call.rows.width);
    WithIsa([=](auto isa) SNUG_LAMBDA {
      for (int64_t row = begin; row < end; row += together) {
        ForwardRows<isa()>(call, row, std::min(together, end - row));
      }
    });
  });
}

// Let g = dy weight and x' = (x - mean) inv_std. Then dx = inv_std (g - mean(g) - x' mean(g x')), and dweight and dbias
// are the sums over rows of dy x' and dy.
template <class T>
struct BackwardCall {
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  explicit BackwardCall(const KernelContext& k)
      : x(k.input<T>(0)),
        weight(k.has_input(1) ? k.input<S>(1) : nullptr),
        means(k.input<S>(2)),
        inv_stds(k.input<S>(3)),
        dy(k.input<T>(4)),
        dx(k.output<T>(0)),
        rows(k.input_type(0), k.options<proto::LayerNorm>().axes()) {}
  const T* x;
  const S *weight, *means, *inv_stds;
  const T* dy;
  T* dx;  // may be x or dy
  NormRows rows;
};

// The numbers of the rows that are done together.
template <class A>
struct RowNumbers {
  alignas(64) A mean[kTileRows], inv_std[kTileRows];
  alignas(64) A means[2 * kTileRows];  // those of g, then those of g x'
};

// Computes the elements of kRows rows, from the j-th of those that are done together.
template <int kRows, class T>
SNUG_INLINE void BackwardElements(const BackwardCall<T>& call, int64_t row, const RowNumbers<Accumulator<T>>& all,
                                  int64_t j, Float32Port<T>* dweight, Float32Port<T>* dbias) {
  using A = Accumulator<T>;
  const int64_t n = call.rows.width;
  const T* x = call.x + (row + j) * n;
  const T* dy = call.dy + (row + j) * n;
  T* dx = call.dx + (row + j) * n;
  const auto* weight = call.weight;
  A mean[kRows], inv_std[kRows], mean_g[kRows], mean_gx[kRows];
  for (int r = 0; r < kRows; ++r) {
    mean[r] = all.mean[j + r];
    inv_std[r] = all.inv_std[j + r];
    mean_g[r] = all.means[j + r];
    mean_gx[r] = all.means[kTileRows + j + r];
  }
  SNUG_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const A w = weight != nullptr ? weight[i] : A(1);
    A of_weight = A(0), of_bias = A(0);
    for (int r = 0; r < kRows; ++r) {
      const A own = static_cast<A>(dy[r * n + i]);
      const A normalized = (static_cast<A>(x[r * n + i]) - mean[r]) * inv_std[r];
      of_weight += own * normalized;
      of_bias += own;
      dx[r * n + i] = static_cast<T>(inv_std[r] * (own * w - mean_g[r] - normalized * mean_gx[r]));
    }
    dweight[i] += of_weight;
    dbias[i] += of_bias;
  }
}

// Does `count` rows, kTileRows at most.
template <Isa kIsa, class T>
SNUG_INLINE void BackwardRows(const BackwardCall<T>& call, int64_t row, int64_t count, Float32Port<T>* dweight,
                              Float32Port<T>* dbias) {
  using A = Accumulator<T>;
  // Of more rows, the numbers leave the registers, and rows a power of two long push each other out of the first-level
  // cache.
  constexpr int kRows = kIsa == Isa::kBaseline ? 1 : 2;
  const int64_t n = call.rows.width;
  const T* x = call.x + row * n;
  const T* dy = call.dy + row * n;
  const auto* weight = call.weight;
  const A scale = A(1) / static_cast<A>(n);
  RowNumbers<A> numbers;
  std::copy_n(call.means + row, count, numbers.mean);
  std::copy_n(call.inv_stds + row, count, numbers.inv_std);
  SumRows<kIsa, 2>(count, n, numbers.means, [=, &numbers](int64_t j, int64_t i) SNUG_LAMBDA {
    const A own = static_cast<A>(dy[j * n + i]);
    const A g = weight != nullptr ? own * weight[i] : own;
    return std::array<A, 2>{g, g * (static_cast<A>(x[j * n + i]) - numbers.mean[j])};
  });
  for (int64_t j = 0; j < count; ++j) {
    numbers.means[j] *= scale;
    numbers.means[kTileRows + j] *= scale * numbers.inv_std[j];
  }
  int64_t j = 0;
  for (; j + kRows <= count; j += kRows) BackwardElements<kRows>(call, row, numbers, j, dweight, dbias);
  for (; j < count; ++j) BackwardElements<1>(call, row, numbers, j, dweight, dbias);
}

// Does `count` short rows. Each lane adds up its rows' gradients of weight and bias: `dweight` and `dbias` are tiles.
template <Isa kIsa, class T>
SNUG_INLINE void BackwardTile(const BackwardCall<T>& call, int64_t row, int64_t count, Accumulator<T>* dweight,
                              Accumulator<T>* dbias) {
  using A = Accumulator<T>;
  const int64_t n = call.rows.width;
  const A scale = A(1) / static_cast<A>(n);
  const auto* weight = call.weight;
  RowTile<A> x_tile, dy_tile;
  A* x = x_tile.at;
  A* dy = dy_tile.at;
  LoadRows<kIsa>(call.x + row * n, n, n, count, call.x + call.rows.rows * n, x);
  LoadRows<kIsa>(call.dy + row * n, n, n, count, call.dy + call.rows.rows * n, dy);
  alignas(64) A mean[kTileRows] = {}, inv_std[kTileRows] = {}, mean_g[kTileRows], mean_gx[kTileRows];
  std::copy_n(call.means + row, count, mean);
  std::copy_n(call.inv_stds + row, count, inv_std);
  for (int64_t i = 0; i < n; ++i) {
    const A w = weight != nullptr ? weight[i] : A(1);
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) {
      const int64_t at = i * kTileRows + j;
      x[at] = (x[at] - mean[j]) * inv_std[j];
      dweight[at] += dy[at] * x[at];
      dbias[at] += dy[at];
      dy[at] *= w;
    }
  }
  SumTile(n, mean_g, [=](int64_t, int64_t at) SNUG_LAMBDA { return dy[at]; });
  SumTile(n, mean_gx, [=](int64_t, int64_t at) SNUG_LAMBDA { return dy[at] * x[at]; });
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < kTileRows; ++j) {
    mean_g[j] *= scale;
    mean_gx[j] *= scale;
  }
  for (int64_t i = 0; i < n; ++i) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) {
      const int64_t at = i * kTileRows + j;
      x[at] = inv_std[j] * (dy[at] - mean_g[j] - x[at] * mean_gx[j]);
    }
  }
  StoreRows<kIsa>(static_cast<const A*>(x), n, count, call.dx + row * n, n);
}

// Does the rows [begin, end) of a chunk. `dweight` and `dbias` become the sums over them.
template <Isa kIsa, class T>
SNUG_INLINE void BackwardChunk(const BackwardCall<T>& call, int64_t begin, int64_t end, Float32Port<T>* dweight,
                               Float32Port<T>* dbias) {
  using A = Accumulator<T>;
  const int64_t n = call.rows.width;
  if (n > kShortRow) {
    std::fill_n(dweight, 2 * n, A(0));
    const int64_t together = RowsTogether(n);
    for (int64_t row = begin; row < end; row += together) {
      BackwardRows<kIsa>(call, row, std::min(together, end - row), dweight, dbias);
    }
    return;
  }
  RowTile<A> weight_lanes, bias_lanes;
  std::fill_n(weight_lanes.at, n * kTileRows, A(0));
  std::fill_n(bias_lanes.at, n * kTileRows, A(0));
  for (int64_t row = begin; row < end; row += kTileRows) {
    BackwardTile<kIsa>(call, row, std::min(kTileRows, end - row), weight_lanes.at, bias_lanes.at);
  }
  AddTileLanes(n, weight_lanes.at, dweight);
  AddTileLanes(n, bias_lanes.at, dbias);
}

template <class T>
void Backward(const KernelContext& k) {
  using S = Float32Port<T>;
  const BackwardCall<T> call(k);
  S* partial = k.workspace<S>();
  const int64_t n = call.rows.width;
  ParallelFor(k.threads(), call.rows.rows, call.rows.rows_per_chunk, [=](int64_t begin, int64_t end) {
    S* of_chunk = partial + begin / call.rows.rows_per_chunk * 2 * n;
    WithIsa([=](auto isa) SNUG_LAMBDA { BackwardChunk<isa()>(call, begin, end, of_chunk, of_chunk + n); });
  });
  AddNormChunks(k.threads(), call.rows.chunks, 2 * n, n, partial, k.output<S>(1));
  AddNormChunks(k.threads(), call.rows.chunks, 2 * n, n, partial + n, k.output<S>(2));
}

absl::Status ForwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    Forward<decltype(zero)>(k);
    return absl::OkStatus();
  });
}

absl::Status BackwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    Backward<decltype(zero)>(k);
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, const char* options, const Shape& x, const Shape& normalized) -> Sample& {
    return s.Case(name)
        .With(ParseOptions<proto::LayerNorm>(options))
        .Input(x)
        .Input(normalized)
        .Range(0.5, 2)
        .Input(normalized);
  };
  affine("row", "", {5, 7}, {7});
  affine("sequence", "", {2, 3, 48}, {48});
  affine("wide", "", {3, 133}, {133});
  affine("two_axes", "axes: 2 epsilon: 0.01", {3, 4, 5}, {4, 5});
  affine("rows", "", {75, 3}, {3});
  affine("short_rows", "", {35, 10}, {10});
  affine("rows_of_a_tile", "", {33, 37}, {37});
  // On CUDA a warp holds a row, a block holds it, and a block streams it, 16 bytes at a time.
  affine("whole_packs", "", {3, 72}, {72});
  affine("row_of_a_block", "", {2, 1600}, {1600}).NoGradient();
  affine("long_row", "", {2, 8704}, {8704}).NoGradient();
  s.Case("no_affine").With(ParseOptions<proto::LayerNorm>("affine: false")).Input({5, 19});
  s.Case("no_bias").Input({5, 19}).Input({19});
  s.Case("far_from_zero").Input({3, 70}).Range(30, 32).Input({70}).Input({70}).Tolerance(2e-5, 5e-2);
  s.Case("known")
      .With(ParseOptions<proto::LayerNorm>("epsilon: 0"))
      .Input({2, 2})
      .Values({1, 3, 5, 5.5})
      .NoGradient()
      .Expect(0, {-1, 1, -1, 1})
      .Expect(1, {2, 5.25})
      .Expect(2, {1, 4});
  s.Case("vector").Input({5}).Fails("expected 2 to 8 dimensions");
  s.Case("axes")
      .With(ParseOptions<proto::LayerNorm>("axes: 2"))
      .Input({5, 7})
      .Fails("option \"axes\": expected 1 to 1 (the batch stays) for input [5, 7], found 2");
  s.Case("weight").Input({5, 7}).Input({5}).Fails("input 1 \"weight\" [5]: expected shape [7]");
}

void GradSamples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, const char* options, const Shape& x, const Shape& normalized,
                           const Shape& rows) {
    s.Case(name)
        .With(ParseOptions<proto::LayerNorm>(options))
        .Input(x)
        .Input(normalized)
        .Input(rows)
        .Range(-0.1, 0.1)
        .Input(rows)
        .Range(0.5, 2)
        .Input(x);
  };
  affine("row", "", {5, 7}, {7}, {5});
  affine("short_rows", "", {35, 10}, {10}, {35});
  affine("rows_of_a_tile", "", {33, 37}, {37}, {33});
  affine("wide", "", {3, 133}, {133}, {3});
  affine("two_axes", "axes: 2", {3, 4, 5}, {4, 5}, {3});
  affine("chunks", "", {75, 1100}, {1100}, {75});
  affine("whole_packs", "", {70, 72}, {72}, {70});
  affine("row_of_a_block", "", {2, 1600}, {1600}, {2});
  affine("long_row", "", {2, 8704}, {8704}, {2});
  // A warp holds one to four packs of a row in each thread, and does two rows in turn.
  affine("row_of_a_warp", "", {33, 256}, {256}, {33});
  affine("row_of_a_warp_2", "", {20, 376}, {376}, {20});
  affine("row_of_a_warp_3", "", {35, 504}, {504}, {35});
  affine("row_of_a_warp_4", "", {17, 768}, {768}, {17});
  affine("row_of_a_warp_5", "", {19, 1024}, {1024}, {19});
  s.Case("no_affine").Input({5, 19}).Absent().Input({5}).Input({5}).Range(0.5, 2).Input({5, 19});
  s.Case("mean").Input({5, 7}).Input({7}).Input({7}).Input({5}).Input({5, 7}).Fails("expected shape [5]");
}

}  // namespace

SNUG_OPS(layer_norm) {
  return {
      {.name = "layer_norm",
       .doc = "y = (x - mean) / sqrt(var + epsilon) * weight + bias, mean and var of each row",
       .inputs = {{"x"}, {"weight", PortType::kFloat32, true}, {"bias", PortType::kFloat32, true}},
       .outputs = {{"y"},
                   {.name = "mean", .type = PortType::kFloat32, .no_gradient = true},
                   {.name = "inv_std", .type = PortType::kFloat32, .no_gradient = true}},
       .infer = Infer,
       .layer = Layer,
       .gradient = Gradient,
       .aliases = {{Alias::Kind::kMayShare, 0, 0}},
       .cost = CostOfNode,
       .kernels = {Plain(ForwardCpu), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                     const auto& options = k.options<proto::LayerNorm>();
                     const NormRows view(k.input_type(0), options.axes());
                     return LayerNormCuda(k, view.rows, view.width, options.epsilon());
                   }))},
       .samples = Samples},
      {.name = "layer_norm_grad",
       .doc = "dx, dweight, dbias of layer_norm",
       .inputs = {{"x"},
                  {"weight", PortType::kFloat32, true},
                  {"mean", PortType::kFloat32},
                  {"inv_std", PortType::kFloat32},
                  {"dy"}},
       .outputs = {{"dx"}, {"dweight", PortType::kFloat32}, {"dbias", PortType::kFloat32}},
       .infer = InferGrad,
       .aliases = {{Alias::Kind::kMayShare, 0, 4}, {Alias::Kind::kMayShare, 0, 0}},
       .cost = CostOfGrad,
       .kernels = {{.name = "plain", .prepare = PrepareGrad, .run = BackwardCpu},
                   {.device = kOnCuda,
                    .name = "own",
                    .prepare = SNUG_IF_CUDA([](PrepareContext& c) {
                      const NormRows view(c.types().input(0), c.options<proto::LayerNorm>().axes());
                      c.SetWorkspaceBytes(LayerNormGradCudaWorkspace(view.rows, view.width, c.types().input(0).dtype));
                      return absl::OkStatus();
                    }),
                    .run = SNUG_IF_CUDA([](const KernelContext& k) {
                      const NormRows view(k.input_type(0), k.options<proto::LayerNorm>().axes());
                      return LayerNormGradCuda(k, view.rows, view.width);
                    })}},
       .samples = GradSamples}};
}

}  // namespace snug::core::ops::layer_norm
