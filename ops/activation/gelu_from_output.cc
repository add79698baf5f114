// gelu_with_side: gelu, and a bit for each element: whether x is left of gelu's minimum. From these two its gradient
// follows without x (gelu_slope.h). Only the pass gradients_from_outputs makes them.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/activation/gelu_slope.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/elementwise.h"
#include "ops/kit/isa.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::gelu_from_output {
namespace {

using proto::ParseOptions;

static_assert(kElementwiseChunk % kElementwiseBlock == 0 && kElementwiseBlock % 8 == 0);  // no byte is shared

Shape SidesOf(const ValueType& y) { return {(y.num_elements() + 7) / 8}; }

absl::Status Infer(InferContext& c) {
  c.SetOutput(0, c.input(0));
  c.SetOutput(1, DType::kUint8, SidesOf(c.input(0)));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, SidesOf(c.input(0))));
  SNUG_RETURN_IF_ERROR(c.CheckShape(2, c.shape(0)));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, g.Op("gelu_from_output_grad", {g.output(0), g.output(1), g.output_grad(0)}, g.options_handle()));
  return g.status();
}

// Bit i of byte j is flags[8 j + i], which is 0 or 1.
SNUG_INLINE void Pack(int64_t bytes, const uint8_t* flags, uint8_t* packed) {
  static_assert(std::endian::native == std::endian::little);
  for (int64_t j = 0; j < bytes; ++j) {
    uint64_t eight;
    std::memcpy(&eight, flags + 8 * j, sizeof eight);
    packed[j] = static_cast<uint8_t>((eight * 0x0102040810204080U) >> 56);  // flag i meets bit 56 + i of the product
  }
}

template <class A>
SNUG_INLINE void Unpack(int64_t bytes, const uint8_t* packed, A* flags) {
  for (int64_t j = 0; j < bytes; ++j) {
    const uint32_t eight = packed[j];
    for (int i = 0; i < 8; ++i) flags[8 * j + i] = static_cast<A>(static_cast<int32_t>((eight >> i) & 1U));
  }
}

template <class Form>
struct Grad {
  template <class A>
  SNUG_INLINE A operator()(A y, A left, A dy) const {
    return dy * GeluSlope<Form>(y, left != A(0));
  }
};

template <class T, class Form>
void Forward(const KernelContext& k) {
  using A = Accumulator<T>;
  const T* x = k.input<T>(0);
  T* y = k.output<T>(0);
  auto* const sides = k.output<uint8_t>(1);
  ParallelFor(k.threads(), k.output_type(0).num_elements(), kElementwiseChunk, [=](int64_t begin, int64_t end) {
    WithIsa([=](auto isa) SNUG_LAMBDA {
      alignas(64) uint8_t flags[kElementwiseBlock];
      for (int64_t i = begin; i < end; i += kElementwiseBlock) {
        const int64_t n = std::min(kElementwiseBlock, end - i);
        const int64_t bytes = (n + 7) / 8;
        std::fill(flags + n, flags + 8 * bytes, uint8_t{0});
        for (int64_t j = 0; j < n; ++j) flags[j] = static_cast<A>(x[i + j]) < static_cast<A>(Form::kLeastAt) ? 1 : 0;
        Pack(bytes, flags, sides + i / 8);
        MapBlock(isa, n, typename Form::Function(), y + i, x + i);  // y may be x
      }
    });
  });
}

template <class T, class Form>
void Backward(const KernelContext& k) {
  using A = Accumulator<T>;
  const T* y = k.input<T>(0);
  const auto* const sides = k.input<uint8_t>(1);
  const T* dy = k.input<T>(2);
  T* dx = k.output<T>(0);
  ParallelFor(k.threads(), k.output_type(0).num_elements(), kElementwiseChunk, [=](int64_t begin, int64_t end) {
    WithIsa([=](auto isa) SNUG_LAMBDA {
      alignas(64) A left[kElementwiseBlock];
      for (int64_t i = begin; i < end; i += kElementwiseBlock) {
        const int64_t n = std::min(kElementwiseBlock, end - i);
        Unpack((n + 7) / 8, sides + i / 8, left);
        MapBlock(isa, n, Grad<Form>(), dx + i, y + i, static_cast<const A*>(left), dy + i);
      }
    });
  });
}

absl::Status ForwardCpu(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    k.options<proto::Gelu>().tanh() ? Forward<T, GeluByTanhForm>(k) : Forward<T, GeluByErf>(k);
    return absl::OkStatus();
  });
}

absl::Status BackwardCpu(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    k.options<proto::Gelu>().tanh() ? Backward<T, GeluByTanhForm>(k) : Backward<T, GeluByErf>(k);
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto tanh = [] { return ParseOptions<proto::Gelu>("tanh: true"); };
  // Near the minimum the output does not say enough of the input: in double too differences say more than it does.
  s.Case("exact").Input({5, 7}).Range(-4, 4).AwayFrom({GeluByErf::kLeastAt});
  s.Case("tanh").With(tanh()).Input({5, 7}).Range(-4, 4).AwayFrom({GeluByTanhForm::kLeastAt});
  s.Case("several_blocks").Input({3, 1031}).Range(-3, 3).NoGradient();
  s.Case("known").Input({4}).Values({-1000, 0, -0.0, 1000}).NoGradient().Expect(0, {0, 0, 0, 1000}).Expect(1, {1});
  s.Case("known_sides")
      .Input({10})
      .Values({-0.8, -0.7, -0.76, 3, -3, 0, 1, -1, -2, 2})
      .NoGradient()
      .Expect(1, {0b10010101, 0b01});
  s.Case("integers").Int({4}, 0, 9).Fails("expected a floating-point value");
}

void GradSamples(SampleBuilder& s) {
  s.Case("known")
      .Input({4})
      .Values({0, 0, 100, -0.0})
      .Bytes({1})
      .Values({0b1001})
      .Input({4})
      .Values({1, 2, 3, 12})
      .Expect(0, {0, 1, 3, 0});
  s.Case("known_left")  // x = -1
      .Only({DType::kFloat32, DType::kFloat64})
      .Input({1})
      .Values({-0.15865525393145707})
      .Bytes({1})
      .Values({1})
      .Input({1})
      .Values({12})
      .Expect(0, {-0.9997856470522355});
  s.Case("sides").Input({9}).Bytes({1}).Input({9}).Fails("expected shape [2]");
  s.Case("shape_mismatch").Input({4}).Bytes({1}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(gelu_from_output) {
  return {{.name = "gelu_with_side",
           .doc = "y = gelu(x), and a bit for each element: x < -0.7518, where gelu is least",
           .inputs = {{"x"}},
           .outputs = {{"y"}, {"sides", PortType::kBytes}},
           .infer = Infer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .kernels = {Plain(ForwardCpu)},
           .samples = Samples},
          {.name = "gelu_from_output_grad",
           .doc = "dx = dy gelu'(x) for the x on that side whose gelu is y",
           .inputs = {{"y"}, {"sides", PortType::kBytes}, {"dy"}},
           .outputs = {{"dx"}},
           .infer = InferGrad,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}, {Alias::Kind::kMayShare, 0, 2}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .kernels = {Plain(BackwardCpu)},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::gelu_from_output
