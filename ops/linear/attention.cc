// attention: out = softmax(scale q k^T + mask) v for every head, as one op whose memory is linear in the length. Its
// gradient computes the probabilities again from q, k and `lse`.
#include "ops/kernels/attention/attention.h"

#include <absl/strings/str_cat.h>

#include <cmath>
#include <limits>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::attention {
namespace {

using proto::ParseOptions;

constexpr int kForwardMask = 3;
constexpr int kGradMask = 6;
constexpr int kGradLse = 4;

// Returns the logical [batch, heads, length, width] of q, k or v.
Shape Unpacked(const proto::Attention& options, const Shape& shape) {
  if (!options.has_heads()) return shape;
  return {shape[0], options.heads(), shape[1], shape[2] / options.heads()};
}

AttentionOperand OperandOf(const proto::Attention& options, const Shape& shape) {
  const Shape s = Unpacked(options, shape);
  const int64_t heads = s[1], length = s[2], width = s[3];
  if (options.has_heads()) return {.batch = length * heads * width, .head = width, .row = heads * width};
  return {.batch = heads * length * width, .head = length * width, .row = width};
}

// q, k and v are inputs 0 to 2 of the op and of its gradient.
AttentionSizes SizesOf(const NodeTypes& types, int mask_port) {
  const proto::Attention& options = types.options.Get<proto::Attention>();
  const Shape q = Unpacked(options, types.input(0).shape);
  const Shape k = Unpacked(options, types.input(1).shape);
  AttentionSizes sizes = {.batch = q[0], .heads = q[1], .queries = q[2], .keys = k[2], .width = q[3]};
  sizes.q = OperandOf(options, types.input(0).shape);
  sizes.k = OperandOf(options, types.input(1).shape);
  sizes.scale = options.has_scale() ? options.scale() : 1 / std::sqrt(static_cast<double>(sizes.width));
  sizes.causal = options.causal();
  if (types.has_input(mask_port)) {
    const Shape& mask = types.input(mask_port).shape;
    const Strides strides = PlainStrides(mask);
    for (int axis = 0; axis < mask.rank(); ++axis) {
      if (mask[axis] > 1) sizes.mask[static_cast<size_t>(axis + 4 - mask.rank())] = strides[static_cast<size_t>(axis)];
    }
  }
  return sizes;
}

absl::Status CheckOperands(InferContext& c, int mask_port) {
  const proto::Attention& options = c.options<proto::Attention>();
  const int rank = options.has_heads() ? 3 : 4;
  for (int i = 0; i < 3; ++i) SNUG_RETURN_IF_ERROR(c.CheckRank(i, rank, rank));
  if (options.has_heads()) {
    const int64_t width = c.shape(0)[2];
    if (options.heads() < 1) {
      return c.OptionError("heads", absl::StrCat("expected at least 1, found ", options.heads()));
    }
    if (width % options.heads() != 0) {
      return c.OptionError("heads", absl::StrCat("expected a divisor of the last dimension of input 0 \"q\", ", width,
                                                 ", found ", options.heads()));
    }
  }
  const int length_axis = rank - 2;
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, c.shape(0).WithDim(length_axis, c.shape(1)[length_axis])));
  SNUG_RETURN_IF_ERROR(c.CheckShape(2, c.shape(1)));
  if (c.has_input(mask_port)) {
    Shape scores = Unpacked(options, c.shape(0));
    scores[3] = c.shape(1)[length_axis];
    const absl::StatusOr<Shape> broadcast = BroadcastShapes(c.shape(mask_port), scores);
    if (!broadcast.ok() || *broadcast != scores) {
      return c.InputError(mask_port, "expected a shape that broadcasts to " + scores.ToString());
    }
  }
  return absl::OkStatus();
}

Shape LseShape(InferContext& c) {
  const Shape q = Unpacked(c.options<proto::Attention>(), c.shape(0));
  return {q[0], q[1], q[2]};
}

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckOperands(c, kForwardMask));
  c.SetOutput(0, c.input(0).dtype, c.shape(0));
  c.SetOutput(1, Float32PortType(c.input(0).dtype), LseShape(c));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckOperands(c, kGradMask));
  SNUG_RETURN_IF_ERROR(c.CheckShape(3, c.shape(0)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(kGradLse, LseShape(c)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(5, c.shape(0)));
  for (int i = 0; i < 3; ++i) c.SetOutput(i, c.input(i).dtype, c.shape(i));
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {  // it keeps q, k, v, out and lse, which are all linear in the length
  if (g.wants(kForwardMask)) {
    g.Fail(absl::InvalidArgumentError(
        "input 3 \"mask\": attention has no gradient for its mask; put a stop_gradient layer before it"));
    return g.status();
  }
  std::vector<ValueId> inputs = {g.input(0), g.input(1), g.input(2), g.output(0), g.output(1), g.output_grad(0)};
  if (g.has_input(kForwardMask)) inputs.push_back(g.input(kForwardMask));
  const std::vector<ValueId> grads = g.Ops("attention_grad", std::move(inputs), g.options_handle());
  g.SetInputGrads(grads);
  return g.status();
}

// `products` says how many matrix products of queries by keys by width there are.
Cost CostOfProducts(const NodeTypes& types, int mask_port, double products) {
  const AttentionSizes s = SizesOf(types, mask_port);
  double pairs = 0;
  for (int64_t i = 0; i < s.queries; ++i) pairs += static_cast<double>(s.KeysOf(i));
  Cost cost;
  cost.flops = 2 * products * static_cast<double>(s.batch * s.heads * s.width) * pairs;
  for (int i = 0; i < types.num_inputs(); ++i) {
    if (types.has_input(i)) cost.bytes += static_cast<double>(types.input(i).size_bytes());
  }
  for (int i = 0; i < types.num_outputs(); ++i) cost.bytes += static_cast<double>(types.output(i).size_bytes());
  return cost;
}

Cost CostOf(const NodeTypes& types) { return CostOfProducts(types, kForwardMask, 2); }
Cost GradCostOf(const NodeTypes& types) { return CostOfProducts(types, kGradMask, 5); }

template <class T>
AttentionForward<T> ForwardCall(const KernelContext& k) {
  return {.q = k.input<T>(0),
          .k = k.input<T>(1),
          .v = k.input<T>(2),
          .mask = k.has_input(kForwardMask) ? k.input<T>(kForwardMask) : nullptr,
          .out = k.output<T>(0),
          .lse = k.output<Accumulator<T>>(1)};
}

template <class T>
AttentionBackward<T> BackwardCall(const KernelContext& k) {
  return {.q = k.input<T>(0),
          .k = k.input<T>(1),
          .v = k.input<T>(2),
          .mask = k.has_input(kGradMask) ? k.input<T>(kGradMask) : nullptr,
          .out = k.input<T>(3),
          .dout = k.input<T>(5),
          .lse = k.input<Accumulator<T>>(kGradLse),
          .dq = k.output<T>(0),
          .dk = k.output<T>(1),
          .dv = k.output<T>(2)};
}

absl::Status AttentionCpu(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    PlainAttention(k.threads(), SizesOf(k.types(), kForwardMask), ForwardCall<decltype(zero)>(k));
    return absl::OkStatus();
  });
}

absl::Status AttentionGradCpu(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    PlainAttentionGrad(k.threads(), SizesOf(k.types(), kGradMask), BackwardCall<decltype(zero)>(k));
    return absl::OkStatus();
  });
}

#if SNUG_HAS_CUDA
absl::Status ForwardCuda(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return AttentionCuda(k, SizesOf(k.types(), kForwardMask), ForwardCall<decltype(zero)>(k));
  });
}

absl::Status PrepareGradCuda(PrepareContext& c) {
  const AttentionSizes s = SizesOf(c.types(), kGradMask);
  c.SetWorkspaceBytes(s.batch * s.heads * s.queries * SizeOf(c.types().input(kGradLse).dtype));
  return absl::OkStatus();
}

absl::Status BackwardCuda(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return AttentionGradCuda(k, SizesOf(k.types(), kGradMask), BackwardCall<decltype(zero)>(k));
  });
}
#endif

absl::Status Prepare(PrepareContext& c) {
  c.SetWorkspaceBytes(BlockedAttentionWorkspaceBytes(c.threads(), SizesOf(c.types(), kForwardMask)));
  return absl::OkStatus();
}

absl::Status PrepareGrad(PrepareContext& c) {
  c.SetWorkspaceBytes(BlockedAttentionGradWorkspaceBytes(c.threads(), SizesOf(c.types(), kGradMask)));
  return absl::OkStatus();
}

absl::Status AttentionFast(const KernelContext& k) {
  const AttentionSizes sizes = SizesOf(k.types(), kForwardMask);
  if (k.output_type(0).dtype == DType::kBFloat16) {
    BlockedAttention(k.threads(), sizes, ForwardCall<BFloat16>(k), k.workspace());
  } else {
    BlockedAttention(k.threads(), sizes, ForwardCall<float>(k), k.workspace());
  }
  return absl::OkStatus();
}

absl::Status AttentionGradFast(const KernelContext& k) {
  const AttentionSizes sizes = SizesOf(k.types(), kGradMask);
  if (k.output_type(0).dtype == DType::kBFloat16) {
    BlockedAttentionGrad(k.threads(), sizes, BackwardCall<BFloat16>(k), k.workspace());
  } else {
    BlockedAttentionGrad(k.threads(), sizes, BackwardCall<float>(k), k.workspace());
  }
  return absl::OkStatus();
}

void Samples(SampleBuilder& s) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto causal = [] { return ParseOptions<proto::Attention>("causal: true"); };
  s.Case("plain").Input({2, 3, 5, 7}).Input({2, 3, 5, 7}).Input({2, 3, 5, 7});
  s.Case("other_keys").Input({2, 2, 5, 7}).Input({2, 2, 3, 7}).Input({2, 2, 3, 7});
  s.Case("causal").Input({1, 2, 6, 4}).Input({1, 2, 6, 4}).Input({1, 2, 6, 4}).With(causal());
  s.Case("causal_more_keys").Input({1, 2, 4, 5}).Input({1, 2, 6, 5}).Input({1, 2, 6, 5}).With(causal());
  s.Case("causal_fewer_keys").Input({1, 2, 6, 5}).Input({1, 2, 4, 5}).Input({1, 2, 4, 5}).With(causal());
  s.Case("scale")
      .Input({1, 1, 4, 3})
      .Input({1, 1, 4, 3})
      .Input({1, 1, 4, 3})
      .With(ParseOptions<proto::Attention>("scale: 2.5"));
  s.Case("packed_heads")
      .Input({2, 5, 12})
      .Input({2, 4, 12})
      .Input({2, 4, 12})
      .With(ParseOptions<proto::Attention>("heads: 3"));
  s.Case("packed_causal")
      .Input({2, 5, 12})
      .Input({2, 5, 12})
      .Input({2, 5, 12})
      .With(ParseOptions<proto::Attention>("heads: 2 causal: true"));
  s.Case("mask").Input({2, 2, 4, 3}).Input({2, 2, 5, 3}).Input({2, 2, 5, 3}).Input({4, 5}).NoGradient();
  s.Case("mask_per_sample")
      .Input({2, 2, 4, 3})
      .Input({2, 2, 5, 3})
      .Input({2, 2, 5, 3})
      .Input({2, 1, 1, 5})
      .NoGradient();
  s.Case("mask_per_head_causal")
      .Input({2, 2, 4, 3})
      .Input({2, 2, 4, 3})
      .Input({2, 2, 4, 3})
      .Input({2, 4, 1})
      .NoGradient()
      .With(causal());
  s.Case("other_width_of_v")
      .Input({1, 1, 2, 3})
      .Input({1, 1, 2, 3})
      .Input({1, 1, 2, 2})
      .Fails("input 2 \"v\" [1, 1, 2, 2]: expected shape [1, 1, 2, 3]");
  s.Case("sees_nothing")
      .Input({1, 1, 2, 1})
      .Input({1, 1, 2, 1})
      .Input({1, 1, 2, 1})
      .Values({3, 5})
      .Input({2, 2})
      .Values({0, -kInfinity, -kInfinity, -kInfinity})
      .NoGradient()
      .Expect(0, {3, 0});
  s.Case("many_blocks").Input({1, 1, 40, 34}).Input({1, 1, 140, 34}).Input({1, 1, 140, 34}).NoGradient();
  s.Case("many_blocks_causal")
      .Input({1, 1, 150, 5})
      .Input({1, 1, 150, 5})
      .NoGradient()
      .Input({1, 1, 150, 5})
      .With(causal());
  // These have widths that tensor cores take.
  s.Case("width_64").Input({1, 2, 70, 64}).Input({1, 2, 130, 64}).Input({1, 2, 130, 64}).NoGradient();
  s.Case("width_64_causal")
      .Input({1, 150, 128})
      .Input({1, 150, 128})
      .NoGradient()
      .Input({1, 150, 128})
      .With(ParseOptions<proto::Attention>("heads: 2 causal: true"));
  s.Case("width_128_mask")
      .Input({1, 1, 40, 128})
      .Input({1, 1, 70, 128})
      .Input({1, 1, 70, 128})
      .Input({40, 70})
      .NoGradient();
  s.Case("width_24").Input({2, 1, 20, 24}).Input({2, 1, 18, 24}).Input({2, 1, 18, 24}).NoGradient();
  s.Case("uniform")
      .Input({1, 1, 1, 1})
      .Values({0})
      .Input({1, 1, 3, 1})
      .Input({1, 1, 3, 1})
      .Values({1, 2, 6})
      .Expect(0, {3})
      .Expect(1, {std::log(3.0)});
  s.Case("rank").Input({2, 5, 7}).Input({2, 5, 7}).Input({2, 5, 7}).Fails("expected 4 dimensions");
  s.Case("other_width")
      .Input({2, 3, 5, 7})
      .Input({2, 3, 5, 6})
      .Input({2, 3, 5, 6})
      .Fails("expected shape [2, 3, 5, 7]");
  s.Case("heads_do_not_divide")
      .Input({2, 5, 10})
      .Input({2, 5, 10})
      .Input({2, 5, 10})
      .With(ParseOptions<proto::Attention>("heads: 3"))
      .Fails("option \"heads\": expected a divisor of the last dimension of input 0 \"q\", 10, found 3");
  s.Case("no_heads")
      .Input({2, 5, 10})
      .Input({2, 5, 10})
      .Input({2, 5, 10})
      .With(ParseOptions<proto::Attention>("heads: 0"))
      .Fails("option \"heads\": expected at least 1, found 0");
  s.Case("wrong_mask")
      .Input({2, 2, 4, 3})
      .Input({2, 2, 5, 3})
      .Input({2, 2, 5, 3})
      .Input({4, 4})
      .Fails("input 3 \"mask\" [4, 4]: expected a shape that broadcasts to [2, 2, 4, 5]");
}

void GradSamples(SampleBuilder& s) {
  // Any `lse` is accepted. A large one keeps the probabilities of these made-up numbers small.
  s.Case("plain")
      .Input({2, 2, 5, 7})
      .Input({2, 2, 4, 7})
      .Input({2, 2, 4, 7})
      .Input({2, 2, 5, 7})
      .Input({2, 2, 5})
      .Range(2, 3)
      .Input({2, 2, 5, 7});
  s.Case("packed_causal_mask")
      .Input({1, 5, 6})
      .Input({1, 5, 6})
      .Input({1, 5, 6})
      .Input({1, 5, 6})
      .Input({1, 2, 5})
      .Range(2, 3)
      .Input({1, 5, 6})
      .Input({5, 5})
      .With(ParseOptions<proto::Attention>("heads: 2 causal: true"));
  s.Case("many_blocks")
      .Input({1, 1, 70, 34})
      .Input({1, 1, 140, 34})
      .Input({1, 1, 140, 34})
      .Input({1, 1, 70, 34})
      .Input({1, 1, 70})
      .Range(4, 5)
      .Input({1, 1, 70, 34});
  // These have widths that tensor cores take.
  s.Case("width_64_causal")
      .Input({1, 150, 128})
      .Input({1, 150, 128})
      .Input({1, 150, 128})
      .Input({1, 150, 128})
      .Input({1, 2, 150})
      .Range(5, 6)
      .Input({1, 150, 128})
      .With(ParseOptions<proto::Attention>("heads: 2 causal: true"));
  s.Case("width_128_mask")
      .Input({1, 1, 70, 128})
      .Input({1, 1, 40, 128})
      .Input({1, 1, 40, 128})
      .Input({1, 1, 70, 128})
      .Input({1, 1, 70})
      .Range(5, 6)
      .Input({1, 1, 70, 128})
      .Input({70, 40});
  s.Case("width_24")
      .Input({2, 1, 20, 24})
      .Input({2, 1, 90, 24})
      .Input({2, 1, 90, 24})
      .Input({2, 1, 20, 24})
      .Input({2, 1, 20})
      .Range(4, 5)
      .Input({2, 1, 20, 24});
  s.Case("wrong_lse")
      .Input({1, 1, 5, 7})
      .Input({1, 1, 5, 7})
      .Input({1, 1, 5, 7})
      .Input({1, 1, 5, 7})
      .Input({1, 1, 4})
      .Input({1, 1, 5, 7})
      .Fails("expected shape [1, 1, 5]");
}

}  // namespace

SNUG_OPS(attention) {
  return {
      {.name = "attention",
       .doc = "out = softmax(scale q k^T + mask) v for each head; lse: logarithm of each query's sum of exponentials",
       .inputs = {{"q"}, {"k"}, {"v"}, {.name = "mask", .optional = true}},
       .outputs = {{"out"}, {.name = "lse", .type = PortType::kFloat32, .no_gradient = true}},
       .infer = Infer,
       .gradient = Gradient,
       .cost = CostOf,
       .kernels = {{.name = "own", .serves = NotInDouble, .prepare = Prepare, .run = AttentionFast},
                   Plain(AttentionCpu),
                   OwnOnCuda(SNUG_IF_CUDA(ForwardCuda))},
       .samples = Samples},
      {.name = "attention_grad",
       .doc = "dq, dk, dv of attention; the probabilities are computed again from q, k and lse",
       .inputs =
           {{"q"}, {"k"}, {"v"}, {"out"}, {"lse", PortType::kFloat32}, {"dout"}, {.name = "mask", .optional = true}},
       .outputs = {{"dq"}, {"dk"}, {"dv"}},
       .infer = InferGrad,
       .cost = GradCostOf,
       .kernels = {{.name = "own", .serves = NotInDouble, .prepare = PrepareGrad, .run = AttentionGradFast},
                   Plain(AttentionGradCpu),
                   {.device = kOnCuda,
                    .name = "own",
                    .prepare = SNUG_IF_CUDA(PrepareGradCuda),
                    .run = SNUG_IF_CUDA(BackwardCuda)}},
       .samples = GradSamples}};
}

}  // namespace snug::core::ops::attention
