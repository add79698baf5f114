// layer_norm: normalises each row (the last `axes` axes) by its own mean and variance; and its gradient. Rows are
// contiguous. The gradients of weight and bias are summed over chunks of rows, whose size follows from the shape, and
// the chunks' sums in order, so the bits are the same on any number of threads.
#include <algorithm>
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
void Forward(const KernelContext& k) {
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  const T* x = k.input<T>(0);
  const S* weight = k.has_input(1) ? k.input<S>(1) : nullptr;
  const S* bias = k.has_input(2) ? k.input<S>(2) : nullptr;
  T* y = k.output<T>(0);
  S* means = k.output<S>(1);
  S* inv_stds = k.output<S>(2);
  const NormRows view(k.input_type(0), k.options<proto::LayerNorm>().axes());
  const double epsilon = k.options<proto::LayerNorm>().epsilon();
  const int64_t n = view.width;
  ParallelFor(k.threads(), view.rows, std::max<int64_t>(1, kNormChunk / std::max<int64_t>(1, n)),
              [=](int64_t begin, int64_t end) {
                WithIsa([=]() SNUG_LAMBDA {
                  for (int64_t r = begin; r < end; ++r) {
                    const T* a = x + r * n;
                    T* b = y + r * n;
                    const double count = static_cast<double>(n);
                    const double sum = LaneSum<A>(n, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(a[i]); });
                    const A mean = static_cast<A>(sum / count);
                    const double squares = LaneSum<A>(n, [=](int64_t i) SNUG_LAMBDA {
                      const A d = static_cast<A>(a[i]) - mean;
                      return d * d;
                    });
                    const A inv_std = static_cast<A>(1 / std::sqrt(squares / count + epsilon));
                    means[r] = mean;
                    inv_stds[r] = inv_std;
                    if (weight != nullptr && bias != nullptr) {
                      SNUG_INDEPENDENT
                      for (int64_t i = 0; i < n; ++i) {
                        b[i] = static_cast<T>((static_cast<A>(a[i]) - mean) * inv_std * weight[i] + bias[i]);
                      }
                    } else {
                      for (int64_t i = 0; i < n; ++i) {
                        A v = (static_cast<A>(a[i]) - mean) * inv_std;
                        if (weight != nullptr) v *= weight[i];
                        if (bias != nullptr) v += bias[i];
                        b[i] = static_cast<T>(v);
                      }
                    }
                  }
                });
              });
}

// Let g = dy weight and x' = (x - mean) inv_std. Then dx = inv_std (g - mean(g) - x' mean(g x')), and dweight and dbias
// are the sums over rows of dy x' and dy.
template <class T>
void Backward(const KernelContext& k) {
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  const T* x = k.input<T>(0);
  const S* weight = k.has_input(1) ? k.input<S>(1) : nullptr;
  const S* means = k.input<S>(2);
  const S* inv_stds = k.input<S>(3);
  const T* dy = k.input<T>(4);
  T* dx = k.output<T>(0);
  S* dweight = k.output<S>(1);
  S* dbias = k.output<S>(2);
  S* partial = k.workspace<S>();
  const NormRows view(k.input_type(0), k.options<proto::LayerNorm>().axes());
  const int64_t n = view.width;
  ParallelFor(k.threads(), view.rows, view.rows_per_chunk, [=](int64_t begin, int64_t end) {
    S* chunk_weight = partial + begin / view.rows_per_chunk * 2 * n;
    S* chunk_bias = chunk_weight + n;
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t i = 0; i < n; ++i) chunk_weight[i] = chunk_bias[i] = 0;
      for (int64_t r = begin; r < end; ++r) {
        const T* a = x + r * n;
        const T* d = dy + r * n;
        T* b = dx + r * n;
        const A mean = means[r];
        const A inv_std = inv_stds[r];
        const auto g = [=](int64_t i) SNUG_LAMBDA {
          return weight != nullptr ? static_cast<A>(d[i]) * weight[i] : static_cast<A>(d[i]);
        };
        const A count = static_cast<A>(n);
        const A mean_g = static_cast<A>(LaneSum<A>(n, g)) / count;
        const A mean_gx =
            static_cast<A>(LaneSum<A>(n, [=](int64_t i) SNUG_LAMBDA { return g(i) * (static_cast<A>(a[i]) - mean); })) *
            inv_std / count;
        SNUG_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          const A own = static_cast<A>(d[i]);
          const A normalized = (static_cast<A>(a[i]) - mean) * inv_std;
          chunk_weight[i] += own * normalized;
          chunk_bias[i] += own;
          b[i] = static_cast<T>(inv_std * (g(i) - mean_g - normalized * mean_gx));
        }
      }
    });
  });
  AddNormChunks(k.threads(), view.chunks, 2 * n, n, partial, dweight);
  AddNormChunks(k.threads(), view.chunks, 2 * n, n, partial + n, dbias);
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
  affine("wide", "", {3, 133}, {133}, {3});
  affine("two_axes", "axes: 2", {3, 4, 5}, {4, 5}, {3});
  affine("chunks", "", {75, 1100}, {1100}, {75});
  affine("whole_packs", "", {70, 72}, {72}, {70});
  affine("row_of_a_block", "", {2, 1600}, {1600}, {2});
  affine("long_row", "", {2, 8704}, {8704}, {2});
  s.Case("no_affine").Input({5, 19}).Absent().Input({5}).Input({5}).Range(0.5, 2).Input({5, 19});
  s.Case("mean").Input({5, 7}).Input({7}).Input({7}).Input({5}).Input({5, 7}).Fails("expected shape [5]");
}

}  // namespace

SNUG_OPS(layer_norm) {
  return {{.name = "layer_norm",
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
                          c.SetWorkspaceBytes(LayerNormGradCudaWorkspace(view.rows, view.width));
                          return absl::OkStatus();
                        }),
                        .run = SNUG_IF_CUDA([](const KernelContext& k) {
                          const NormRows view(k.input_type(0), k.options<proto::LayerNorm>().axes());
                          return LayerNormGradCuda(k, view.rows, view.width);
                        })}},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::layer_norm
