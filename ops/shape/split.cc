// split: cuts x along an axis into several outputs. The gradient joins theirs, with zeros where an output has none.
#include <absl/strings/str_cat.h>

#include <vector>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/copy/byte_range.h"
#include "ops/kernels/copy/copy_box.h"
#include "ops/kit/options.h"
#include "ops/node_types.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/data_type.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::split {
namespace {

constexpr int64_t kMaxParts = 1024;

int AxisOf(const proto::Split& options, int rank) {
  return static_cast<int>(options.axis() < 0 ? options.axis() + rank : options.axis());
}

absl::Status Infer(InferContext& c) {
  const auto& options = c.options<proto::Split>();
  const Shape& whole = c.shape(0);
  SNUG_ASSIGN_OR_RETURN(const int axis, AxisOption("axis", options.axis(), whole.rank()));
  if ((options.size_size() > 0) == options.has_parts()) {
    return c.OptionError("size", "expected either the size of each output, or \"parts\" for equal ones");
  }
  std::vector<int64_t> sizes(options.size().begin(), options.size().end());
  if (options.has_parts()) {
    const int64_t parts = options.parts();
    if (parts < 1 || parts > kMaxParts || whole[axis] % parts != 0) {
      return c.OptionError("parts", absl::StrCat("expected a divisor of ", whole[axis], ", the size of axis ", axis,
                                                 ", up to ", kMaxParts, ", found ", parts));
    }
    sizes.assign(static_cast<size_t>(parts), whole[axis] / parts);
  }
  int64_t left = whole[axis];
  for (const int64_t size : sizes) {
    if (size < 1) return c.OptionError("size", absl::StrCat("expected at least 1, found ", size));
    left = size > left ? -1 : left - size;
    if (left < 0) break;
  }
  if (left != 0)
    return c.OptionError("size", absl::StrCat("expected a sum of ", whole[axis], ", the size of axis ", axis));
  for (size_t i = 0; i < sizes.size(); ++i) {
    c.SetOutput(static_cast<int>(i), c.input(0).dtype, whole.WithDim(axis, sizes[i]), c.input(0).layout);
  }
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  const auto& options = g.options<proto::Split>();
  std::vector<ValueId> parts;
  for (int i = 0; i < g.num_outputs(); ++i) {
    if (g.has_output_grad(i)) {
      parts.push_back(g.output_grad(i));
      continue;
    }
    proto::Fill zeros;
    zeros.set_dtype(proto::FromDType(g.output_type(i).dtype));
    SetShapeOption(g.output_type(i).shape, &zeros);
    parts.push_back(g.Op("fill", {}, proto::MakeOptions(zeros), absl::StrCat("zeros:", i)));
  }
  proto::Concat concat;
  concat.set_axis(AxisOf(options, g.input_type(0).shape.rank()));
  g.SetInputGrad(0, g.Op("concat", parts, proto::MakeOptions(concat), "split_grad"));
  return g.status();
}

std::optional<int64_t> OutputInInput(const NodeTypes& types, int output) {
  const int axis = AxisOf(types.options.Get<proto::Split>(), types.input(0).shape.rank());
  int64_t begin = 0;
  for (int i = 0; i < output; ++i) begin += types.output(i).shape[axis];
  return RangeAlong(types.input(0), axis, begin, types.output(output));
}

template <class Boxes>
absl::Status SplitKernel(const KernelContext& k) {
  const ValueType& whole = k.input_type(0);
  const int axis = AxisOf(k.options<proto::Split>(), whole.shape.rank());
  const Strides strides = whole.strides();
  const int64_t bytes = SizeOf(whole.dtype);
  const char* x = k.input<char>(0);
  for (int i = 0; i < k.num_outputs(); ++i) {
    const ValueType& part = k.output_type(i);
    SNUG_RETURN_IF_ERROR(Boxes::Copy(k, bytes, part.shape, x, strides, k.output<void>(i), part.strides()));
    x += part.shape[axis] * strides[static_cast<size_t>(axis)] * bytes;
  }
  return absl::OkStatus();
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::Split>;
  s.Case("known")
      .Input({2, 3})
      .Values({1, 2, 3, 4, 5, 6})
      .With(options("size: [1, 2]"))
      .Expect(0, {1, 4})
      .Expect(1, {2, 3, 5, 6});
  s.Case("parts").Input({2, 5, 12}).With(options("axis: -1 parts: 3"));
  s.Case("channels").Input({2, 22, 3, 5}).With(options("size: [4, 17, 1]"));
  s.Case("rows").Input({2, 3, 6, 5}).With(options("axis: 2 parts: 2"));
  s.Case("batch").Input({4, 3}).With(options("axis: 0 size: [1, 3]"));
  s.Case("one_part").Input({4, 3}).With(options("parts: 1"));
  s.Case("neither").Input({4, 3}).With(options("")).Fails("expected either the size of each output");
  s.Case("both").Input({4, 3}).With(options("parts: 3 size: [1, 2]")).Fails("expected either the size of each output");
  s.Case("uneven").Input({4, 3}).With(options("parts: 2")).Fails("expected a divisor of 3, the size of axis 1");
  s.Case("too_short").Input({4, 3}).With(options("size: [1, 1]")).Fails("expected a sum of 3, the size of axis 1");
  s.Case("too_long").Input({4, 3}).With(options("size: [2, 9223372036854775807]")).Fails("expected a sum of 3");
  s.Case("empty").Input({4, 3}).With(options("size: [3, 0]")).Fails("\"size\": expected at least 1, found 0");
  s.Case("bad_axis").Input({4, 3}).With(options("axis: 3 parts: 1")).Fails("axis 3: expected between -2 and 1");
}

}  // namespace

SNUG_OPS(split) {
  return {{.name = "split",
           .doc = "y0, y1, ... = x cut along `axis` into pieces of `size`, or `parts` equal ones",
           .inputs = {{"x", PortType::kAny}},
           .outputs = {{.name = "y", .type = PortType::kAny, .variadic = true}},
           .infer = Infer,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kAgnostic},
           .output_in_input = OutputInInput,
           .kernels = {Plain(SplitKernel<BoxesOnCpu>), OwnOnCuda(SNUG_IF_CUDA(SplitKernel<BoxesOnCuda>))},
           .samples = Samples}};
}

}  // namespace snug::core::ops::split
