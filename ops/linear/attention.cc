// attention: out = softmax(scale q k^T + mask) v for every head, as one op whose memory is linear in the length. Its
// gradient computes the probabilities again from q, k and `lse`. packed_attention reads q, k and v where a projection
// of all three put them, beside each other in each row, and its gradient writes theirs so: nothing is split or joined.
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
#include "ops/kit/library_variant.h"
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

// Where the values of the four ops are among their inputs. If they are packed, q, k and v are input 0, and their
// gradients are output 0.
struct Form {
  bool packed = false;
  int out = -1, lse = -1, dout = -1;  // of gradients
  int mask = -1;
};
constexpr Form kForward = {.mask = kForwardMask};
constexpr Form kGrad = {.out = 3, .lse = 4, .dout = 5, .mask = kGradMask};
constexpr Form kPackedForward = {.packed = true};
constexpr Form kPackedGrad = {.packed = true, .out = 1, .lse = 2, .dout = 3};

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

bool HasMask(const NodeTypes& types, const Form& form) { return form.mask >= 0 && types.has_input(form.mask); }

// Returns the shape of q alone.
Shape QueryShape(const NodeTypes& types, const Form& form) {
  const Shape& q = types.input(0).shape;
  return form.packed ? q.WithDim(2, q[2] / 3) : q;
}

AttentionSizes SizesOf(const NodeTypes& types, const Form& form) {
  const proto::Attention& options = types.options.Get<proto::Attention>();
  const Shape query = QueryShape(types, form);
  const Shape q = Unpacked(options, query);
  const Shape k = form.packed ? q : Unpacked(options, types.input(1).shape);
  AttentionSizes sizes = {.batch = q[0], .heads = q[1], .queries = q[2], .keys = k[2], .width = q[3]};
  sizes.out = OperandOf(options, query);
  sizes.q = sizes.out;
  if (form.packed) {
    sizes.q.batch *= 3;
    sizes.q.row *= 3;
  }
  sizes.k = form.packed ? sizes.q : OperandOf(options, types.input(1).shape);
  sizes.scale = options.has_scale() ? options.scale() : 1 / std::sqrt(static_cast<double>(sizes.width));
  sizes.causal = options.causal();
  if (HasMask(types, form)) {
    const Shape& mask = types.input(form.mask).shape;
    const Strides strides = PlainStrides(mask);
    for (int axis = 0; axis < mask.rank(); ++axis) {
      if (mask[axis] > 1) sizes.mask[static_cast<size_t>(axis + 4 - mask.rank())] = strides[static_cast<size_t>(axis)];
    }
  }
  return sizes;
}

// Checks that the last dimension of input 0, of `parts` equal parts, has that many heads.
absl::Status CheckHeads(InferContext& c, absl::string_view input, int64_t parts) {
  const int64_t heads = c.options<proto::Attention>().heads();
  const int64_t width = c.shape(0)[2];
  if (heads < 1) return c.OptionError("heads", absl::StrCat("expected at least 1, found ", heads));
  if (width % parts == 0 && width / parts % heads == 0) return absl::OkStatus();
  return c.OptionError("heads",
                       absl::StrCat("expected a divisor of ", parts > 1 ? "a third of " : "",
                                    "the last dimension of input 0 \"", input, "\", ", width, ", found ", heads));
}

absl::Status CheckOperands(InferContext& c, int mask_port) {
  const proto::Attention& options = c.options<proto::Attention>();
  const int rank = options.has_heads() ? 3 : 4;
  for (int i = 0; i < 3; ++i) SNUG_RETURN_IF_ERROR(c.CheckRank(i, rank, rank));
  if (options.has_heads()) SNUG_RETURN_IF_ERROR(CheckHeads(c, "q", 1));
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

// `query` is the shape of q.
Shape LseShape(const InferContext& c, const Shape& query) {
  const Shape q = Unpacked(c.options<proto::Attention>(), query);
  return {q[0], q[1], q[2]};
}

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckOperands(c, kForwardMask));
  c.SetOutput(0, c.input(0).dtype, c.shape(0));
  c.SetOutput(1, Float32PortType(c.input(0).dtype), LseShape(c, c.shape(0)));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckOperands(c, kGradMask));
  SNUG_RETURN_IF_ERROR(c.CheckShape(3, c.shape(0)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(4, LseShape(c, c.shape(0))));
  SNUG_RETURN_IF_ERROR(c.CheckShape(5, c.shape(0)));
  for (int i = 0; i < 3; ++i) c.SetOutput(i, c.input(i).dtype, c.shape(i));
  return absl::OkStatus();
}

absl::StatusOr<Shape> PackedQueryShape(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 3, 3));
  SNUG_RETURN_IF_ERROR(CheckHeads(c, "qkv", 3));
  return c.shape(0).WithDim(2, c.shape(0)[2] / 3);
}

absl::Status InferPacked(InferContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Shape query, PackedQueryShape(c));
  c.SetOutput(0, c.input(0).dtype, query);
  c.SetOutput(1, Float32PortType(c.input(0).dtype), LseShape(c, query));
  return absl::OkStatus();
}

absl::Status InferPackedGrad(InferContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Shape query, PackedQueryShape(c));
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, query));
  SNUG_RETURN_IF_ERROR(c.CheckShape(2, LseShape(c, query)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(3, query));
  c.SetOutput(0, c.input(0).dtype, c.shape(0));
  return absl::OkStatus();
}

absl::Status PackedGradient(GradContext& g) {
  g.SetInputGrad(
      0, g.Op("packed_attention_grad", {g.input(0), g.output(0), g.output(1), g.output_grad(0)}, g.options_handle()));
  return g.status();
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

// Forward there are two matrix products of queries by keys by width, backward five.
Cost CostOf(const NodeTypes& types, const Form& form) {
  const AttentionSizes s = SizesOf(types, form);
  double pairs = 0;
  for (int64_t i = 0; i < s.queries; ++i) pairs += static_cast<double>(s.KeysOf(i));
  Cost cost;
  const double products = form.dout < 0 ? 2 : 5;
  cost.flops = 2 * products * static_cast<double>(s.batch * s.heads * s.width) * pairs;
  for (int i = 0; i < types.num_inputs(); ++i) {
    if (types.has_input(i)) cost.bytes += static_cast<double>(types.input(i).size_bytes());
  }
  for (int i = 0; i < types.num_outputs(); ++i) cost.bytes += static_cast<double>(types.output(i).size_bytes());
  return cost;
}

// Returns how far k lies behind q, and v behind k, where they are packed.
int64_t PackedStep(const AttentionSizes& s) { return s.heads * s.width; }

template <class T>
AttentionForward<T> ForwardCall(const KernelContext& k, const Form& form) {
  const T* const q = k.input<T>(0);
  const int64_t step = form.packed ? PackedStep(SizesOf(k.types(), form)) : 0;
  return {.q = q,
          .k = form.packed ? q + step : k.input<T>(1),
          .v = form.packed ? q + 2 * step : k.input<T>(2),
          .mask = HasMask(k.types(), form) ? k.input<T>(form.mask) : nullptr,
          .out = k.output<T>(0),
          .lse = k.output<Accumulator<T>>(1)};
}

template <class T>
AttentionBackward<T> BackwardCall(const KernelContext& k, const Form& form) {
  const T* const q = k.input<T>(0);
  T* const dq = k.output<T>(0);
  const int64_t step = form.packed ? PackedStep(SizesOf(k.types(), form)) : 0;
  return {.q = q,
          .k = form.packed ? q + step : k.input<T>(1),
          .v = form.packed ? q + 2 * step : k.input<T>(2),
          .mask = HasMask(k.types(), form) ? k.input<T>(form.mask) : nullptr,
          .out = k.input<T>(form.out),
          .dout = k.input<T>(form.dout),
          .lse = k.input<Accumulator<T>>(form.lse),
          .dq = dq,
          .dk = form.packed ? dq + step : k.output<T>(1),
          .dv = form.packed ? dq + 2 * step : k.output<T>(2)};
}

absl::Status RunPlain(const KernelContext& k, const Form& form) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const AttentionSizes sizes = SizesOf(k.types(), form);
    if (form.dout < 0) {
      PlainAttention(k.threads(), sizes, ForwardCall<T>(k, form));
    } else {
      PlainAttentionGrad(k.threads(), sizes, BackwardCall<T>(k, form));
    }
    return absl::OkStatus();
  });
}

absl::Status Prepare(PrepareContext& c, const Form& form) {
  const AttentionSizes sizes = SizesOf(c.types(), form);
  c.SetWorkspaceBytes(form.dout < 0 ? BlockedAttentionWorkspaceBytes(c.threads(), sizes)
                                    : BlockedAttentionGradWorkspaceBytes(c.threads(), sizes));
  return absl::OkStatus();
}

template <class T>
void RunBlocked(const KernelContext& k, const Form& form) {
  const AttentionSizes sizes = SizesOf(k.types(), form);
  if (form.dout < 0) {
    BlockedAttention(k.threads(), sizes, ForwardCall<T>(k, form), k.workspace());
  } else {
    BlockedAttentionGrad(k.threads(), sizes, BackwardCall<T>(k, form), k.workspace());
  }
}

absl::Status RunFast(const KernelContext& k, const Form& form) {
  k.output_type(0).dtype == DType::kBFloat16 ? RunBlocked<BFloat16>(k, form) : RunBlocked<float>(k, form);
  return absl::OkStatus();
}

#if SNUG_HAS_CUDA
absl::Status RunCuda(const KernelContext& k, const Form& form) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const AttentionSizes sizes = SizesOf(k.types(), form);
    return form.dout < 0 ? AttentionCuda(k, sizes, ForwardCall<T>(k, form))
                         : AttentionGradCuda(k, sizes, BackwardCall<T>(k, form));
  });
}

absl::Status PrepareCuda(PrepareContext& c, const Form& form) {
  if (form.dout >= 0) {
    const AttentionSizes s = SizesOf(c.types(), form);
    c.SetWorkspaceBytes(s.batch * s.heads * s.queries * SizeOf(c.types().input(form.lse).dtype));
  }
  return TakeOwnBesideLibrary(c);
}
#endif

std::vector<KernelRow> Kernels(const Form& form) {
  std::vector<KernelRow> rows = {{.name = "own",
                                  .serves = NotInDouble,
                                  .prepare = [form](PrepareContext& c) { return Prepare(c, form); },
                                  .run = [form](const KernelContext& k) { return RunFast(k, form); }},
                                 Plain([form](const KernelContext& k) { return RunPlain(k, form); })};
#if SNUG_HAS_CUDA
  const auto sizes = [form](const NodeTypes& types) { return SizesOf(types, form); };
  const auto has_mask = [form](const NodeTypes& types) { return HasMask(types, form); };
  rows.push_back(form.dout < 0
                     ? CudnnAttentionRow(sizes, has_mask,
                                         [form](const KernelContext& k) { return ForwardCall<BFloat16>(k, form); })
                     : CudnnAttentionGradRow(sizes, has_mask, [form](const KernelContext& k) {
                         return BackwardCall<BFloat16>(k, form);
                       }));
  rows.push_back(
      form.dout < 0
          ? CublasAttentionRow(sizes, [form](const KernelContext& k) { return ForwardCall<float>(k, form); })
          : CublasAttentionGradRow(sizes, [form](const KernelContext& k) { return BackwardCall<float>(k, form); }));
  rows.push_back({.device = kOnCuda,
                  .name = "own",
                  .prepare = [form](PrepareContext& c) { return PrepareCuda(c, form); },
                  .run = [form](const KernelContext& k) { return RunCuda(k, form); }});
#endif
  return rows;
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
  // What libraries serve: rows that begin at multiples of 16 bytes in bfloat16.
  s.Case("rows_of_16_bytes").Input({2, 3, 9, 16}).Input({2, 3, 9, 16}).Input({2, 3, 9, 16});
  s.Case("rows_of_16_bytes_causal")
      .Input({3, 5, 16})
      .Input({3, 7, 16})
      .Input({3, 7, 16})
      .With(ParseOptions<proto::Attention>("heads: 2 causal: true"));
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
  s.Case("rows_of_16_bytes_causal")
      .Input({2, 6, 16})
      .Input({2, 5, 16})
      .Input({2, 5, 16})
      .Input({2, 6, 16})
      .Input({2, 2, 6})
      .Range(2, 3)
      .Input({2, 6, 16})
      .With(ParseOptions<proto::Attention>("heads: 2 causal: true"));
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

proto::Attention PackedOptions(int64_t heads, bool causal) {
  proto::Attention options;
  options.set_heads(heads);
  options.set_causal(causal);
  return options;
}

void PackedSamples(SampleBuilder& s) {
  s.Case("plain").Input({2, 5, 18}).With(proto::MakeOptions(PackedOptions(3, false)));
  s.Case("causal").Input({1, 6, 24}).With(proto::MakeOptions(PackedOptions(1, true)));
  s.Case("rows_of_16_bytes").Input({2, 9, 96}).With(proto::MakeOptions(PackedOptions(2, true)));
  s.Case("one_token").Input({2, 1, 48}).With(proto::MakeOptions(PackedOptions(2, false)));
  s.Case("many_blocks").Input({1, 140, 3 * 34}).NoGradient().With(proto::MakeOptions(PackedOptions(2, true)));
  s.Case("rank").Input({2, 3, 5, 6}).With(proto::MakeOptions(PackedOptions(1, false))).Fails("expected 3 dimensions");
  s.Case("heads_do_not_divide")
      .Input({2, 5, 30})
      .With(proto::MakeOptions(PackedOptions(3, false)))
      .Fails("option \"heads\": expected a divisor of a third of the last dimension of input 0 \"qkv\", 30, found 3");
}

void PackedGradSamples(SampleBuilder& s) {
  s.Case("plain")
      .Input({2, 5, 12})
      .Input({2, 5, 4})
      .Input({2, 2, 5})
      .Range(2, 3)
      .Input({2, 5, 4})
      .With(proto::MakeOptions(PackedOptions(2, false)));
  s.Case("causal_rows_of_16_bytes")
      .Input({3, 7, 96})
      .Input({3, 7, 32})
      .Input({3, 2, 7})
      .Range(2, 3)
      .Input({3, 7, 32})
      .With(proto::MakeOptions(PackedOptions(2, true)));
  s.Case("wrong_out")
      .Input({2, 5, 12})
      .Input({2, 5, 12})
      .Input({2, 2, 5})
      .Input({2, 5, 4})
      .With(proto::MakeOptions(PackedOptions(2, false)))
      .Fails("expected shape [2, 5, 4]");
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
       .cost = [](const NodeTypes& types) { return CostOf(types, kForward); },
       .kernels = Kernels(kForward),
       .samples = Samples},
      {.name = "attention_grad",
       .doc = "dq, dk, dv of attention; the probabilities are computed again from q, k and lse",
       .inputs =
           {{"q"}, {"k"}, {"v"}, {"out"}, {"lse", PortType::kFloat32}, {"dout"}, {.name = "mask", .optional = true}},
       .outputs = {{"dq"}, {"dk"}, {"dv"}},
       .infer = InferGrad,
       .cost = [](const NodeTypes& types) { return CostOf(types, kGrad); },
       .kernels = Kernels(kGrad),
       .samples = GradSamples},
      {.name = "packed_attention",
       .doc = "attention whose q, k and v lie beside each other in each row of qkv",
       .inputs = {{"qkv"}},
       .outputs = {{"out"}, {.name = "lse", .type = PortType::kFloat32, .no_gradient = true}},
       .infer = InferPacked,
       .gradient = PackedGradient,
       .cost = [](const NodeTypes& types) { return CostOf(types, kPackedForward); },
       .kernels = Kernels(kPackedForward),
       .samples = PackedSamples},
      {.name = "packed_attention_grad",
       .doc = "dqkv of packed_attention; the probabilities are computed again from q, k and lse",
       .inputs = {{"qkv"}, {"out"}, {"lse", PortType::kFloat32}, {"dout"}},
       .outputs = {{"dqkv"}},
       .infer = InferPackedGrad,
       .cost = [](const NodeTypes& types) { return CostOf(types, kPackedGrad); },
       .kernels = Kernels(kPackedGrad),
       .samples = PackedGradSamples}};
}

}  // namespace snug::core::ops::attention
