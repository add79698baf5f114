// bias_add: y = x + b, with b along one axis; and bias_grad, which sums over all other axes.
//
// In memory a value is [outer, channels, inner]. Inner is 1 where the axis is the last one in memory (a matrix, or the
// channels of a channels-last image).
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <vector>

#include "engine/base/error_part.h"
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/reduce/cuda.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/elementwise.h"
#include "ops/kit/isa.h"
#include "ops/layer_context.h"
#include "ops/linear/bias_add_cuda.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::bias_add {
namespace {

constexpr int64_t kChunk = 1 << 15;  // elements that a thread takes at a time

using proto::ParseOptions;

struct Folded {
  int64_t outer, channels, inner;
};

Folded Fold(const ValueType& type, int64_t axis_option) {
  const Shape& shape = type.shape;
  const int axis = *NormalizeAxis(axis_option, shape.rank());
  if (!type.layout.channels_last()) {
    return {shape.Count(0, axis), shape[axis], shape.Count(axis + 1, shape.rank())};
  }
  if (axis == 0) return {1, shape[0], shape.Count(1, shape.rank())};
  if (axis == 1) return {shape[0] * shape.Count(2, shape.rank()), shape[1], 1};
  return {shape[0] * shape.Count(2, axis), shape[axis], shape.Count(axis + 1, shape.rank()) * shape[1]};
}

absl::StatusOr<int> Axis(int64_t option, const Shape& x) {
  absl::StatusOr<int> axis = NormalizeAxis(option, x.rank());
  if (axis.ok()) return axis;
  return OptionError("axis", axis.status().message());
}

absl::Status Infer(InferContext& c) {
  SNUG_ASSIGN_OR_RETURN(const int axis, Axis(c.options<proto::BiasAdd>().axis(), c.shape(0)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, Shape({c.shape(0)[axis]})));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_ASSIGN_OR_RETURN(const int axis, Axis(c.options<proto::BiasAdd>().axis(), c.shape(0)));
  c.SetOutput(0, c.input(0).dtype, Shape({c.shape(0)[axis]}));
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) {
  if (c.num_inputs() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("expected 1 input (x), found ", c.num_inputs()));
  }
  const Shape& x = c.type(c.input(0)).shape;
  SNUG_ASSIGN_OR_RETURN(const int axis, Axis(c.options<proto::BiasAdd>().axis(), x));
  const ValueId bias =
      c.Parameter({.name = "bias", .shape = Shape({x[axis]}), .init = ParameterSpec::Init::kConstant, .value = 0});
  c.SetOutput(0, c.Op("bias_add", {c.input(0), bias}, c.options_handle()));
  return c.status();
}

absl::Status Gradient(GradContext& g) {
  if (g.wants(0)) g.SetInputGrad(0, g.output_grad(0));
  if (g.wants(1)) g.SetInputGrad(1, g.Op("bias_grad", {g.output_grad(0)}, g.options_handle()));
  return g.status();
}

// ---- kernels ----

// These add to rows of channels (inner == 1). Rows of few channels are joined, so that the loops stay long.
constexpr int64_t kWide = 128;

int64_t RowsInOne(int64_t channels) { return std::max<int64_t>(1, kWide / channels); }

template <class T>
void AddToRows(int threads, const Folded& f, const T* x, const T* b, T* y) {
  using Acc = Accumulator<T>;
  const int64_t channels = f.channels;
  const int64_t repeats = RowsInOne(channels);
  const int64_t width = repeats * channels;
  const int64_t size = f.outer * channels;
  ParallelFor(threads, (f.outer + repeats - 1) / repeats, std::max<int64_t>(1, kChunk / width),
              [=](int64_t begin, int64_t end) {
                WithIsa([=]() SNUG_LAMBDA {
                  Acc repeated[kWide];
                  for (int64_t i = 0; repeats > 1 && i < width; ++i) repeated[i] = Acc(b[i % channels]);
                  for (int64_t row = begin; row < end; ++row) {
                    const T* from = x + row * width;
                    T* to = y + row * width;
                    const int64_t count = std::min(width, size - row * width);
                    if (repeats > 1) {
                      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(Acc(from[i]) + repeated[i]);
                    } else {
                      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(Acc(from[i]) + Acc(b[i]));
                    }
                  }
                });
              });
}

// Adds to runs, which are of one channel each.
template <class T>
void AddToRuns(int threads, const Folded& f, const T* x, const T* b, T* y) {
  const int64_t channels = f.channels;
  const int64_t inner = f.inner;
  ParallelFor(threads, f.outer * channels, std::max<int64_t>(1, kChunk / inner), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t run = begin; run < end; ++run) {
        const Accumulator<T> shift = b[run % channels];
        const T* from = x + run * inner;
        T* to = y + run * inner;
        for (int64_t i = 0; i < inner; ++i) to[i] = static_cast<T>(Accumulator<T>(from[i]) + shift);
      }
    });
  });
}

absl::Status BiasAddCpu(const KernelContext& k) {
  const Folded f = Fold(k.input_type(0), k.options<proto::BiasAdd>().axis());
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    if (f.inner == 1) {
      AddToRows(k.threads(), f, k.input<T>(0), k.input<T>(1), k.output<T>(0));
    } else {
      AddToRuns(k.threads(), f, k.input<T>(0), k.input<T>(1), k.output<T>(0));
    }
    return absl::OkStatus();
  });
}

ReducePlan PlanGrad(const NodeTypes& types) {
  const ValueType& dy = types.input(0);
  const int axis = *NormalizeAxis(types.options.Get<proto::BiasAdd>().axis(), dy.shape.rank());
  std::array<bool, kMaxRank> reduced;
  reduced.fill(true);
  reduced[static_cast<size_t>(axis)] = false;
  Strides strides = {};
  strides[static_cast<size_t>(axis)] = 1;
  return ReducePlan(dy, reduced, strides);
}

absl::Status BiasGradCpu(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Reduce<SumOp>(k.threads(), PlanGrad(k.types()), k.input<T>(0), k.output<T>(0));
    return absl::OkStatus();
  });
}

#if SNUG_HAS_CUDA
absl::Status PrepareGradCuda(PrepareContext& c) {
  const Folded f = Fold(c.types().input(0), c.options<proto::BiasAdd>().axis());
  c.SetWorkspaceBytes(
      BiasGradCudaWorkspace(PlanGrad(c.types()), c.types().input(0).dtype, f.outer, f.channels, f.inner));
  return absl::OkStatus();
}

absl::Status RunGradCuda(const KernelContext& k) {
  const Folded f = Fold(k.input_type(0), k.options<proto::BiasAdd>().axis());
  return BiasGradCuda(k, PlanGrad(k.types()), f.outer, f.channels, f.inner);
}
#endif

// The bias lies along its own axis, not along the last as in broadcasting.
BroadcastView ViewOfOperand(const NodeTypes& types, int operand) {
  const ValueType& output = types.output(0);
  if (operand == 0) return BroadcastView(types.input(0), output);
  Strides strides = {};
  strides[static_cast<size_t>(*NormalizeAxis(types.options.Get<proto::BiasAdd>().axis(), output.shape.rank()))] = 1;
  return BroadcastView(strides, output);
}

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Input({7});
  s.Case("narrow").Input({100, 3}).Input({3});
  s.Case("wide").Input({3, 150}).Input({150});
  s.Case("image").Input({2, 19, 4, 5}).Input({19});
  s.Case("whole_packs").Input({3, 72}).Input({72});
  s.Case("one_pixel").Input({3, 6, 1, 1}).Input({6});
  s.Case("volume").Input({2, 3, 2, 3, 4}).Input({3});
  s.Case("last_axis").With(ParseOptions<proto::BiasAdd>("axis: -1")).Input({2, 3, 33}).Input({33});
  s.Case("middle_axis").With(ParseOptions<proto::BiasAdd>("axis: 2")).Input({2, 3, 4, 5}).Input({4});
  s.Case("first_axis").With(ParseOptions<proto::BiasAdd>("axis: 0")).Input({4, 3, 2, 2}).Input({4});
  s.Case("known").Input({2, 2}).Values({1, 2, 3, 4}).Input({2}).Values({10, 20}).Expect(0, {11, 22, 13, 24});
  s.Case("bad_axis")
      .With(ParseOptions<proto::BiasAdd>("axis: 2"))
      .Input({5, 7})
      .Input({7})
      .Fails("option \"axis\": axis 2: expected between -2 and 1 for a value of rank 2");
  s.Case("bad_bias").Input({5, 7}).Input({5}).Fails("input 1 \"b\" [5]: expected shape [7]");
}

void GradSamples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7});
  s.Case("tall").Input({3000, 37});
  s.Case("tall_in_whole_packs").Input({3000, 72});
  s.Case("tall_and_narrow").Input({9000, 5});
  s.Case("many_short_runs").Input({3000, 2, 2});
  s.Case("as_exact_as_few")  // a float that grows by 0.1 has lost two digits after so many
      .Input({250000, 2, 2})
      .Values(std::vector<double>(1000000, 0.1))
      .NoGradient()
      .Expect(0, {50000, 50000});
  s.Case("image").Input({2, 19, 4, 9});
  s.Case("one_pixel").Input({3, 6, 1, 1});
  s.Case("middle_axis").With(ParseOptions<proto::BiasAdd>("axis: 2")).Input({2, 3, 4, 5});
  s.Case("first_axis").With(ParseOptions<proto::BiasAdd>("axis: 0")).Input({4, 3, 2, 2});
  s.Case("known").Input({2, 2, 2}).Values({1, 2, 3, 4, 5, 6, 7, 8}).Expect(0, {14, 22});
  s.Case("bad_axis").With(ParseOptions<proto::BiasAdd>("axis: -3")).Input({5, 7}).Fails("option \"axis\": axis -3");
}

}  // namespace

SNUG_OPS(bias_add) {
  return {{.name = "bias_add",
           .doc = "y = x + b along `axis`",
           .inputs = {{"x"}, {"b"}},
           .outputs = {{"y"}},
           .infer = Infer,
           .layer = Layer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .elementwise = {FunctionExpression<functions::Add>, ViewOfOperand},
           .kernels = {Plain(BiasAddCpu), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         const Folded f = Fold(k.input_type(0), k.options<proto::BiasAdd>().axis());
                         return BiasAddCuda(k, f.channels, f.inner);
                       }))},
           .samples = Samples},
          {.name = "bias_grad",
           .doc = "db = sum of dy over all axes but `axis`",
           .inputs = {{"dy"}},
           .outputs = {{"db"}},
           .infer = InferGrad,
           .traits = {.layout = LayoutRule::kAgnostic},
           .kernels = {Plain(BiasGradCpu),
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA(PrepareGradCuda),
                        .run = SNUG_IF_CUDA(RunGradCuda)}},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::bias_add
