// pad: x with a constant around it along some axes. The gradient is a slice.
#include <absl/strings/str_cat.h>

#include <cmath>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/copy/copy_box.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/options.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::pad {
namespace {

// Returns the index in y at which x begins.
Shape Begin(const proto::Pad& options, int rank) {
  Shape begin;
  for (int i = 0; i < rank; ++i) begin.Append(0);
  for (int i = 0; i < options.before_size(); ++i) {
    const int64_t axis = options.axis(i);
    begin[static_cast<int>(axis < 0 ? axis + rank : axis)] = options.before(i);
  }
  return begin;
}

// Says whether the dtype can hold the number. Integers are held up to 2^53.
bool Holds(DType dtype, double value) {
  if (IsFloating(dtype)) return true;
  const double most = dtype == DType::kUint8 ? 255 : dtype == DType::kInt32 ? 2147483647 : 9007199254740992;
  const double least = dtype == DType::kUint8 ? 0 : -most;
  return value == std::trunc(value) && value >= least && value <= most;
}

absl::Status Infer(InferContext& c) {
  const auto& options = c.options<proto::Pad>();
  const auto list = [&](absl::string_view name, const auto& numbers) {
    if (numbers.size() > options.axis_size()) {
      return c.OptionError(name, absl::StrCat("expected at most one number for each of the ", options.axis_size(),
                                              " in \"axis\", found ", numbers.size()));
    }
    for (const int64_t n : numbers) {
      if (n < 0 || n > kMaxElements) {
        return c.OptionError(name, absl::StrCat("expected between 0 and 2^46, found ", n));
      }
    }
    return absl::OkStatus();
  };
  SNUG_RETURN_IF_ERROR(list("before", options.before()));
  SNUG_RETURN_IF_ERROR(list("after", options.after()));
  if (!Holds(c.input(0).dtype, options.value())) {
    return c.OptionError("value", absl::StrCat(options.value(), " is no ", absl::string_view(Name(c.input(0).dtype))));
  }
  std::array<bool, kMaxRank> used = {};
  Shape to = c.shape(0);
  for (int i = 0; i < options.axis_size(); ++i) {
    SNUG_ASSIGN_OR_RETURN(const int axis, AxisOption("axis", options.axis(i), to.rank()));
    if (used[static_cast<size_t>(axis)]) {
      return c.OptionError("axis", absl::StrCat("expected each axis once, found axis ", axis, " again"));
    }
    used[static_cast<size_t>(axis)] = true;
    to[axis] += (i < options.before_size() ? options.before(i) : 0) + (i < options.after_size() ? options.after(i) : 0);
  }
  c.SetOutput(0, c.input(0).dtype, to, c.input(0).layout);
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  const auto& options = g.options<proto::Pad>();
  const Shape& inner = g.input_type(0).shape;
  const Shape begin = Begin(options, inner.rank());
  proto::Slice slice;
  for (int i = 0; i < inner.rank(); ++i) {
    if (inner[i] == g.output_type(0).shape[i]) continue;
    slice.add_axis(i);
    slice.add_begin(begin[i]);
    slice.add_end(begin[i] + inner[i]);
  }
  g.SetInputGrad(0, g.Op("slice", {g.output_grad(0)}, proto::MakeOptions(slice), "pad_grad"));
  return g.status();
}

template <class Boxes>
absl::Status PadKernel(const KernelContext& k) {
  const auto& options = k.options<proto::Pad>();
  const ValueType& x = k.input_type(0);
  const ValueType& y = k.output_type(0);
  const Shape begin = Begin(options, x.shape.rank());
  const Strides strides = y.strides();
  const int64_t bytes = SizeOf(y.dtype);
  return DispatchAny(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T value = static_cast<T>(static_cast<Accumulator<T>>(options.value()));
    SNUG_RETURN_IF_ERROR(Boxes::FillAround(k, bytes, y.shape, begin, x.shape, &value, k.output<void>(0), strides));
    SNUG_RETURN_IF_ERROR(Boxes::Copy(k, bytes, x.shape, k.input<void>(0), x.strides(),
                                     k.output<T>(0) + OffsetOf(begin, strides), strides));
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::Pad>;
  s.Case("known")
      .Input({1, 2})
      .Values({1, 2})
      .With(options("axis: 1 before: 1 after: 2 value: 7"))
      .Expect(0, {7, 1, 2, 7, 7});
  s.Case("image").Input({2, 3, 4, 5}).With(options("axis: [2, 3] before: [1, 2] after: [3, 0]"));
  s.Case("channels").Input({2, 19, 4, 5}).With(options("axis: 1 after: 3"));
  s.Case("from_the_end").Input({2, 3, 4}).With(options("axis: -1 before: 2 after: 1 value: -1.5"));
  s.Case("batch").Input({2, 3}).With(options("axis: 0 before: 1 after: 1"));
  s.Case("nothing").Input({2, 3}).With(options(""));
  s.Case("integers").Int({2, 3}, 0, 9).With(options("axis: 1 before: 1 value: -1"));
  s.Case("negative").Input({2, 3}).With(options("axis: 1 before: -1")).Fails("\"before\": expected between 0 and 2^46");
  s.Case("no_axis").Input({2, 3}).With(options("after: 1")).Fails("\"after\": expected at most one number");
  s.Case("bad_axis").Input({2, 3}).With(options("axis: 2")).Fails("axis 2: expected between -2 and 1");
  s.Case("axis_twice").Input({2, 3}).With(options("axis: [1, 1]")).Fails("found axis 1 again");
  s.Case("fraction").Int({2, 3}, 0, 9).With(options("axis: 1 value: 0.5")).Fails("0.5 is no int32");
  s.Case("too_large").Input({2, 3}).With(options("axis: 1 before: 70368744177664")).Fails("too many elements");
}

}  // namespace

SNUG_OPS(pad) {
  return {{.name = "pad",
           .doc = "y = x with `before` and `after` elements of `value` around it along each `axis`",
           .inputs = {{"x", PortType::kAny}},
           .outputs = {{"y", PortType::kAny}},
           .infer = Infer,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kAgnostic},
           .kernels = {Plain(PadKernel<BoxesOnCpu>), OwnOnCuda(SNUG_IF_CUDA(PadKernel<BoxesOnCuda>))},
           .samples = Samples}};
}

}  // namespace snug::core::ops::pad
