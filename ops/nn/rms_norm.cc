// rms_norm: divides each row (the last `axes` axes) by the root of the mean of its squares (Zhang, Sennrich 2019); and
// its gradient. It is cut into work as layer_norm is.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/costs.h"
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

namespace snug::core::ops::rms_norm {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckRowNorm<proto::RmsNorm>(c));
  const ValueType& x = c.input(0);
  const int64_t axes = c.options<proto::RmsNorm>().axes();
  if (c.has_input(1)) SNUG_RETURN_IF_ERROR(c.CheckShape(1, ShapeOfRow(x.shape, axes)));
  c.SetOutput(0, x);
  c.SetOutput(1, Float32PortType(x.dtype), ShapeOfRows(x.shape, axes));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckRowNorm<proto::RmsNorm>(c));
  const ValueType& x = c.input(0);
  const int64_t axes = c.options<proto::RmsNorm>().axes();
  if (c.has_input(1)) SNUG_RETURN_IF_ERROR(c.CheckShape(1, ShapeOfRow(x.shape, axes)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(2, ShapeOfRows(x.shape, axes)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(3, x.shape));
  c.SetOutput(0, c.input(3));
  c.SetOutput(1, Float32PortType(x.dtype), ShapeOfRow(x.shape, axes));
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) {
  const auto& options = c.options<proto::RmsNorm>();
  std::vector<ValueId> inputs = c.inputs();
  const bool valid = inputs.size() == 1 && options.axes() >= 1 && options.axes() < c.type(inputs[0]).shape.rank();
  if (valid && options.affine()) {  // otherwise shape inference says what is wrong
    inputs.push_back(c.Parameter({.name = "weight",
                                  .shape = ShapeOfRow(c.type(inputs[0]).shape, options.axes()),
                                  .init = ParameterSpec::Init::kConstant,
                                  .value = 1}));
  }
  c.SetOutput(0, c.Op("rms_norm", inputs, c.options_handle()));
  return c.status();
}

absl::Status Gradient(GradContext& g) {
  const std::vector<ValueId> grads =
      g.Ops("rms_norm_grad", {g.input(0), g.has_input(1) ? g.input(1) : ValueId(), g.output(1), g.output_grad(0)},
            g.options_handle());
  g.SetInputGrads(grads);
  return g.status();
}

absl::Status PrepareGrad(PrepareContext& c) {  // makes room for the chunks' sums
  const ValueType& x = c.types().input(0);
  const NormRows view(x, c.options<proto::RmsNorm>().axes());
  c.SetWorkspaceBytes(NormPartialSums<1>(view) * SizeOf(Float32PortType(x.dtype)));
  return absl::OkStatus();
}

template <class T>
struct ForwardCall {
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  explicit ForwardCall(const KernelContext& k)
      : x(k.input<T>(0)),
        weight(k.has_input(1) ? k.input<S>(1) : nullptr),
        y(k.output<T>(0)),
        inv_roots(k.output<S>(1)),
        rows(k.input_type(0), k.options<proto::RmsNorm>().axes()),
        epsilon(k.options<proto::RmsNorm>().epsilon()) {}
  const T* x;
  const S* weight;  // [width], or null
  T* y;             // may be x
  S* inv_roots;     // [rows]
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
  const T* x = call.x + row * n;
  alignas(64) A inv_root[kTileRows] = {};  // below, all of a tile's have a root
  SumRows<kIsa, 1>(count, n, inv_root, [=](int64_t j, int64_t i) SNUG_LAMBDA {
    const A v = static_cast<A>(x[j * n + i]);
    return std::array<A, 1>{v * v};
  });
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < kTileRows; ++j) inv_root[j] = A(1) / std::sqrt(inv_root[j] * scale + epsilon);
  for (int64_t j = 0; j < count; ++j) {
    const A factor = inv_root[j];
    const T* a = x + j * n;
    T* b = call.y + (row + j) * n;
    SNUG_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const A v = static_cast<A>(a[i]) * factor;
      b[i] = static_cast<T>(weight != nullptr ? v * weight[i] : v);
    }
  }
  std::copy_n(inv_root, count, call.inv_roots + row);
}

// Does `count` short rows.
template <Isa kIsa, class T>
SNUG_INLINE void ForwardTile(const ForwardCall<T>& call, int64_t row, int64_t count) {
  using A = Accumulator<T>;
  const int64_t n = call.rows.width;
  const A scale = A(1) / static_cast<A>(n);
  const A epsilon = static_cast<A>(call.epsilon);
  RowTile<A> tile;
  A* x = tile.at;
  LoadRows<kIsa>(call.x + row * n, n, n, count, call.x + call.rows.rows * n, x);
  alignas(64) A inv_root[kTileRows];
  SumTile(n, inv_root, [=](int64_t, int64_t at) SNUG_LAMBDA { return x[at] * x[at]; });
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < kTileRows; ++j) inv_root[j] = A(1) / std::sqrt(inv_root[j] * scale + epsilon);
  for (int64_t i = 0; i < n; ++i) {
    const A w = call.weight != nullptr ? call.weight[i] : A(1);
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) x[i * kTileRows + j] *= inv_root[j] * w;
  }
  StoreRows<kIsa>(static_cast<const A*>(x), n, count, call.y + row * n, n);
  std::copy_n(inv_root, count, call.inv_roots + row);
}

template <class T>
void Forward(const KernelContext& k) {
  const ForwardCall<T> call(k);
  ForEachNormRows(
      k.threads(), call.rows,
      [=](auto isa, int64_t row, int64_t count) SNUG_LAMBDA { ForwardRows<isa()>(call, row, count); },
      [=](auto isa, int64_t row, int64_t count) SNUG_LAMBDA { ForwardTile<isa()>(call, row, count); });
}

// Let g = dy weight and x' = x inv_root. Then dx = inv_root (g - x' mean(g x')), and dweight is the sum over rows of
// dy x'.
template <class T>
struct BackwardCall {
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  explicit BackwardCall(const KernelContext& k)
      : x(k.input<T>(0)),
        weight(k.has_input(1) ? k.input<S>(1) : nullptr),
        inv_roots(k.input<S>(2)),
        dy(k.input<T>(3)),
        dx(k.output<T>(0)),
        rows(k.input_type(0), k.options<proto::RmsNorm>().axes()) {}
  const T* x;
  const S *weight, *inv_roots;
  const T* dy;
  T* dx;  // may be x or dy
  NormRows rows;
};

// Computes the elements of kRows rows, whose roots and mean(g x') these are.
template <int kRows, class T>
SNUG_INLINE void BackwardElements(const BackwardCall<T>& call, int64_t row, const Accumulator<T>* roots,
                                  const Accumulator<T>* means, Float32Port<T>* dweight) {
  using A = Accumulator<T>;
  const int64_t n = call.rows.width;
  const T* x = call.x + row * n;
  const T* dy = call.dy + row * n;
  T* dx = call.dx + row * n;
  const auto* weight = call.weight;
  A inv_root[kRows], mean[kRows];
  std::copy_n(roots, kRows, inv_root);
  std::copy_n(means, kRows, mean);
  SNUG_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const A w = weight != nullptr ? weight[i] : A(1);
    A of_weight = A(0);
    for (int r = 0; r < kRows; ++r) {
      const A own = static_cast<A>(dy[r * n + i]);
      const A normalized = static_cast<A>(x[r * n + i]) * inv_root[r];
      of_weight += own * normalized;
      dx[r * n + i] = static_cast<T>(inv_root[r] * (own * w - normalized * mean[r]));
    }
    dweight[i] += of_weight;
  }
}

// Does `count` rows, kTileRows at most.
template <Isa kIsa, class T>
SNUG_INLINE void BackwardRows(const BackwardCall<T>& call, int64_t row, int64_t count, Float32Port<T>* dweight) {
  using A = Accumulator<T>;
  constexpr int kRows = kIsa == Isa::kBaseline ? 1 : 2;
  const int64_t n = call.rows.width;
  const T* x = call.x + row * n;
  const T* dy = call.dy + row * n;
  const auto* weight = call.weight;
  const A scale = A(1) / static_cast<A>(n);
  alignas(64) A inv_root[kTileRows], mean[kTileRows];
  std::copy_n(call.inv_roots + row, count, inv_root);
  SumRows<kIsa, 1>(count, n, mean, [=](int64_t j, int64_t i) SNUG_LAMBDA {
    const A own = static_cast<A>(dy[j * n + i]);
    const A g = weight != nullptr ? own * weight[i] : own;
    return std::array<A, 1>{g * static_cast<A>(x[j * n + i])};
  });
  for (int64_t j = 0; j < count; ++j) mean[j] *= scale * inv_root[j];
  int64_t j = 0;
  for (; j + kRows <= count; j += kRows) {
    BackwardElements<kRows>(call, row + j, inv_root + j, mean + j, dweight);
  }
  for (; j < count; ++j) BackwardElements<1>(call, row + j, inv_root + j, mean + j, dweight);
}

// Does `count` short rows. Each lane adds up its rows' gradients of the weight: `dweight` is a tile.
template <Isa kIsa, class T>
SNUG_INLINE void BackwardTile(const BackwardCall<T>& call, int64_t row, int64_t count, Accumulator<T>* dweight) {
  using A = Accumulator<T>;
  const int64_t n = call.rows.width;
  const A scale = A(1) / static_cast<A>(n);
  const auto* weight = call.weight;
  RowTile<A> x_tile, dy_tile;
  A* x = x_tile.at;
  A* dy = dy_tile.at;
  LoadRows<kIsa>(call.x + row * n, n, n, count, call.x + call.rows.rows * n, x);
  LoadRows<kIsa>(call.dy + row * n, n, n, count, call.dy + call.rows.rows * n, dy);
  alignas(64) A inv_root[kTileRows] = {}, mean[kTileRows];
  std::copy_n(call.inv_roots + row, count, inv_root);
  for (int64_t i = 0; i < n; ++i) {
    const A w = weight != nullptr ? weight[i] : A(1);
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) {
      const int64_t at = i * kTileRows + j;
      x[at] *= inv_root[j];
      dweight[at] += dy[at] * x[at];
      dy[at] *= w;
    }
  }
  SumTile(n, mean, [=](int64_t, int64_t at) SNUG_LAMBDA { return dy[at] * x[at]; });
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < kTileRows; ++j) mean[j] *= scale;
  for (int64_t i = 0; i < n; ++i) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) {
      const int64_t at = i * kTileRows + j;
      x[at] = inv_root[j] * (dy[at] - x[at] * mean[j]);
    }
  }
  StoreRows<kIsa>(static_cast<const A*>(x), n, count, call.dx + row * n, n);
}

template <class T>
void Backward(const KernelContext& k) {
  const BackwardCall<T> call(k);
  SumOverNormRows<1>(
      k, call.rows, k.workspace<Float32Port<T>>(),
      [=](auto isa, int64_t row, int64_t count, auto* dweight)
          SNUG_LAMBDA { BackwardRows<isa()>(call, row, count, dweight); },
      [=](auto isa, int64_t row, int64_t count, auto* lanes)
          SNUG_LAMBDA { BackwardTile<isa()>(call, row, count, lanes[0].at); });
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
    return s.Case(name).With(ParseOptions<proto::RmsNorm>(options)).Input(x).Input(normalized).Range(0.5, 2);
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
  affine("one_number", "epsilon: 0.5", {4, 1}, {1});
  s.Case("no_affine").With(ParseOptions<proto::RmsNorm>("affine: false")).Input({5, 19});
  s.Case("known")  // the roots are 5 and 10
      .With(ParseOptions<proto::RmsNorm>("epsilon: 0"))
      .Input({2, 2})
      .Values({1, 7, -14, 2})
      .NoGradient()
      .Input({2})
      .Values({1, 3})
      .NoGradient()
      .Expect(0, {0.2, 4.2, -1.4, 0.6})
      .Expect(1, {0.2, 0.1});
  s.Case("vector").Input({5}).Fails("expected 2 to 8 dimensions");
  s.Case("axes")
      .With(ParseOptions<proto::RmsNorm>("axes: 2"))
      .Input({5, 7})
      .Fails("option \"axes\": expected 1 to 1 (the batch stays) for input [5, 7], found 2");
  s.Case("epsilon").With(ParseOptions<proto::RmsNorm>("epsilon: -1")).Input({5, 7}).Fails("option \"epsilon\"");
  s.Case("weight").Input({5, 7}).Input({5}).Fails("input 1 \"weight\" [5]: expected shape [7]");
}

void GradSamples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, const char* options, const Shape& x, const Shape& normalized,
                           const Shape& rows) {
    s.Case(name)
        .With(ParseOptions<proto::RmsNorm>(options))
        .Input(x)
        .Input(normalized)
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
  s.Case("no_affine").Input({5, 19}).Absent().Input({5}).Range(0.5, 2).Input({5, 19});
  s.Case("known")  // mean(g x') is 1
      .Input({1, 2})
      .Values({1, 7})
      .Input({2})
      .Values({2, 1})
      .Input({1})
      .Values({0.2})
      .Input({1, 2})
      .Values({1.5, 1})
      .Expect(0, {0.56, -0.08})
      .Expect(1, {0.3, 1.4});
  s.Case("root").Input({5, 7}).Input({7}).Input({7}).Input({5, 7}).Fails("expected shape [5]");
}

}  // namespace

SNUG_OPS(rms_norm) {
  return {
      {.name = "rms_norm",
       .doc = "y = x / sqrt(mean(x^2) + epsilon) * weight, the mean of each row",
       .inputs = {{"x"}, {"weight", PortType::kFloat32, true}},
       .outputs = {{"y"}, {.name = "inv_root", .type = PortType::kFloat32, .no_gradient = true}},
       .infer = Infer,
       .layer = Layer,
       .gradient = Gradient,
       .aliases = {{Alias::Kind::kMayShare, 0, 0}},
       .cost = FlopsPerElement<4>,
       .kernels = {Plain(ForwardCpu), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                     const auto& options = k.options<proto::RmsNorm>();
                     const NormRows view(k.input_type(0), options.axes());
                     return RmsNormCuda(k, view.rows, view.width, options.epsilon());
                   }))},
       .samples = Samples},
      {.name = "rms_norm_grad",
       .doc = "dx, dweight of rms_norm",
       .inputs = {{"x"}, {"weight", PortType::kFloat32, true}, {"inv_root", PortType::kFloat32}, {"dy"}},
       .outputs = {{"dx"}, {"dweight", PortType::kFloat32}},
       .infer = InferGrad,
       .aliases = {{Alias::Kind::kMayShare, 0, 3}, {Alias::Kind::kMayShare, 0, 0}},
       .cost = FlopsPerElement<9>,
       .kernels = {{.name = "plain", .prepare = PrepareGrad, .run = BackwardCpu},
                   {.device = kOnCuda,
                    .name = "own",
                    .prepare = SNUG_IF_CUDA([](PrepareContext& c) {
                      const NormRows view(c.types().input(0), c.options<proto::RmsNorm>().axes());
                      c.SetWorkspaceBytes(RmsNormGradCudaWorkspace(view.rows, view.width, c.types().input(0).dtype));
                      return absl::OkStatus();
                    }),
                    .run = SNUG_IF_CUDA([](const KernelContext& k) {
                      const NormRows view(k.input_type(0), k.options<proto::RmsNorm>().axes());
                      return RmsNormGradCuda(k, view.rows, view.width);
                    })}},
       .samples = GradSamples}};
}

}  // namespace snug::core::ops::rms_norm
