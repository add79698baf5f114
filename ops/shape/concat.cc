// concat: puts inputs one after the other along an axis. Each gradient is a slice.
#include <absl/strings/str_cat.h>

#include "engine/base/dtype.h"
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
#include "ops/slice_box.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::concat {
namespace {

int AxisOf(const proto::Concat& options, int rank) {
  return static_cast<int>(options.axis() < 0 ? options.axis() + rank : options.axis());
}

absl::Status Infer(InferContext& c) {
  if (c.num_inputs() == 0) return absl::InvalidArgumentError("expected at least one input");
  SNUG_ASSIGN_OR_RETURN(const int axis, AxisOption("axis", c.options<proto::Concat>().axis(), c.shape(0).rank()));
  Shape whole = c.shape(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (c.input(i).dtype != c.input(0).dtype) {
      return c.InputError(i, absl::StrCat("expected the type of input 0, ", Name(c.input(0).dtype)));
    }
    SNUG_RETURN_IF_ERROR(c.CheckRank(i, whole.rank(), whole.rank()));
    if (c.shape(i).WithDim(axis, 0) != whole.WithDim(axis, 0)) {
      return c.InputError(
          i, absl::StrCat("expected the shape of input 0 ", c.shape(0).ToString(), " except in axis ", axis));
    }
    whole[axis] += c.shape(i)[axis];
  }
  c.SetOutput(0, c.input(0).dtype, whole, c.input(0).layout);
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  const int axis = AxisOf(g.options<proto::Concat>(), g.output_type(0).shape.rank());
  int64_t begin = 0;
  for (int i = 0; i < g.num_inputs(); ++i) {
    const int64_t size = g.input_type(i).shape[axis];
    if (g.wants(i)) {
      g.SetInputGrad(i, g.Op("slice", {g.output_grad(0)}, proto::MakeOptions(SliceAlong(axis, begin, size)),
                             absl::StrCat("grad_input:", i)));
    }
    begin += size;
  }
  return g.status();
}

std::optional<int64_t> InputInOutput(const NodeTypes& types, int input) {
  const int axis = AxisOf(types.options.Get<proto::Concat>(), types.output(0).shape.rank());
  int64_t begin = 0;
  for (int i = 0; i < input; ++i) begin += types.input(i).shape[axis];
  return RangeAlong(types.output(0), axis, begin, types.input(input));
}

template <class Boxes>
absl::Status ConcatKernel(const KernelContext& k) {
  const ValueType& whole = k.output_type(0);
  const int axis = AxisOf(k.options<proto::Concat>(), whole.shape.rank());
  const Strides strides = whole.strides();
  const int64_t bytes = SizeOf(whole.dtype);
  char* y = k.output<char>(0);
  for (int i = 0; i < k.num_inputs(); ++i) {
    const ValueType& part = k.input_type(i);
    SNUG_RETURN_IF_ERROR(Boxes::Copy(k, bytes, part.shape, k.input<void>(i), part.strides(), y, strides));
    y += part.shape[axis] * strides[static_cast<size_t>(axis)] * bytes;
  }
  return absl::OkStatus();
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::Concat>;
  s.Case("known").Input({2, 1}).Values({1, 2}).Input({2, 2}).Values({3, 4, 5, 6}).Expect(0, {1, 3, 4, 2, 5, 6});
  s.Case("channels").Input({2, 3, 4, 5}).Input({2, 17, 4, 5}).Input({2, 1, 4, 5});
  s.Case("last_axis").Input({2, 3, 4}).Input({2, 3, 7}).With(options("axis: -1"));
  s.Case("rows").Input({2, 3, 4, 5}).Input({2, 3, 2, 5}).With(options("axis: 2"));
  s.Case("batch").Input({2, 3}).Input({1, 3}).With(options("axis: 0"));
  s.Case("one_input").Input({2, 3});
  s.Case("integers").Int({2, 3}, 0, 9).Int({2, 1}, 0, 9);
  s.Case("bytes").Bytes({2, 3}).Bytes({2, 2});
  s.Case("two_types").Input({2, 3}).Int({2, 3}, 0, 9).Fails("expected the type of input 0");
  s.Case("bad_axis").Input({2, 3}).Input({2, 3}).With(options("axis: 2")).Fails("axis 2: expected between -2 and 1");
  s.Case("batch_by_accident").Input({2, 3}).Input({2, 3}).With(options("axis: -2")).Fails("axis -2 is the batch");
  s.Case("other_rank").Input({2, 3}).Input({2, 3, 1}).Fails("expected 2 dimensions");
  s.Case("other_rows")
      .Input({2, 3, 4})
      .Input({2, 3, 5})
      .Fails("input 1 \"x\" [2, 3, 5]: expected the shape of input 0");
  s.Case("nothing").Fails("expected at least one input");
}

}  // namespace

SNUG_OPS(concat) {
  return {{.name = "concat",
           .doc = "y = the inputs joined along `axis`",
           .inputs = {{.name = "x", .type = PortType::kAny, .variadic = true}},
           .outputs = {{"y", PortType::kAny}},
           .infer = Infer,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kAgnostic},
           .input_in_output = InputInOutput,
           .kernels = {Plain(ConcatKernel<BoxesOnCpu>), OwnOnCuda(SNUG_IF_CUDA(ConcatKernel<BoxesOnCuda>))},
           .samples = Samples}};
}

}  // namespace snug::core::ops::concat
