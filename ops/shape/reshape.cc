// reshape: the same elements under other dimensions, besides the batch; and reshape_to, which states the whole shape,
// as gradients need it. Both are views.
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernels/copy/reshape_to.h"
#include "ops/kit/options.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::reshape {
namespace {

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 1, kMaxRank));
  const auto& options = c.options<proto::Reshape>();
  const Shape& from = c.shape(0);
  if (options.dim_size() + 1 > kMaxRank) {
    return c.OptionError("dim",
                         absl::StrCat("expected at most ", kMaxRank - 1, " numbers, found ", options.dim_size()));
  }
  Shape to = {from[0]};
  int wildcard = -1;
  for (const int64_t dim : options.dim()) {
    if (dim == -1) {
      if (wildcard >= 0) return c.OptionError("dim", "at most one may be -1");
      wildcard = to.rank();
    } else if (dim < 1) {
      return c.OptionError("dim", absl::StrCat("expected at least 1, or -1 for what is left, found ", dim));
    }
    to.Append(dim == -1 ? 1 : dim);
  }
  if (absl::StatusOr<Shape> bounded = MakeShape(to.dims(), /*allow_empty=*/true); !bounded.ok()) {
    return c.OptionError("dim", bounded.status().message());
  }
  const int64_t wanted = to.Count(1, to.rank());
  const int64_t found = from.Count(1, from.rank());
  if (wildcard >= 0 ? found % wanted != 0 : found != wanted) {
    return c.InputError(0, absl::StrCat("expected ", wildcard >= 0 ? "a multiple of " : "", wanted,
                                        " elements a sample for \"dim\", found ", found));
  }
  if (wildcard >= 0) to[wildcard] = found / wanted;
  c.SetOutput(0, c.input(0).dtype, to);
  return absl::OkStatus();
}

absl::Status InferTo(InferContext& c) {
  const auto& options = c.options<proto::ShapeOf>();
  SNUG_ASSIGN_OR_RETURN(const Shape to, ShapeOption(options, /*allow_empty=*/true));
  if (to.num_elements() != c.shape(0).num_elements()) {
    return c.InputError(0, absl::StrCat("expected ", to.num_elements(), " elements for ", to.ToString()));
  }
  c.SetOutput(0, c.input(0).dtype, to);
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {  // it is reshaped back
  g.SetInputGrad(0, ReshapeTo(g, g.output_grad(0), g.input_type(0).shape));
  return g.status();
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::Reshape>;
  s.Case("split_axis").Input({2, 12}).With(options("dim: [3, 4]"));
  s.Case("infers_one").Input({3, 4, 6}).With(options("dim: [8, -1]"));
  s.Case("to_vector").Input({3, 1}).With(options(""));
  s.Case("integers").Int({2, 6}, 0, 9).With(options("dim: [2, 3]"));
  s.Case("wrong_count").Input({2, 12}).With(options("dim: [5]")).Fails("expected 5 elements a sample");
  s.Case("no_multiple").Input({2, 12}).With(options("dim: [5, -1]")).Fails("expected a multiple of 5 elements");
  s.Case("two_open").Input({2, 12}).With(options("dim: [-1, -1]")).Fails("at most one may be -1");
  s.Case("zero").Input({2, 12}).With(options("dim: [0, 12]")).Fails("expected at least 1, or -1");
  s.Case("overflow").Input({2, 12}).With(options("dim: [4294967296, 4294967296]")).Fails("too many elements");
  s.Case("too_deep").Input({2, 12}).With(options("dim: [1, 1, 1, 1, 1, 1, 1, 12]")).Fails("expected at most 7");
  s.Case("scalar").Input({}).With(options("dim: [1]")).Fails("expected 1 to 8 dimensions");
}

void ToSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::ShapeOf>;
  s.Case("changes_batch").Input({4, 3}).With(options("dim: [2, 6]"));
  s.Case("scalar").Input({1, 1}).With(options(""));
  s.Case("wrong_count").Input({4, 3}).With(options("dim: [2, 5]")).Fails("expected 10 elements for [2, 5]");
}

}  // namespace

SNUG_OPS(reshape) {
  return {{.name = "reshape",
           .doc = "y = x with every dimension but the batch replaced by `dim` (one may be -1)",
           .inputs = {{"x", PortType::kAny}},
           .outputs = {{"y", PortType::kAny}},
           .infer = Infer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMustShare, 0, 0}},
           .traits = {.view = true},
           .samples = Samples},
          {.name = "reshape_to",
           .doc = "y = x with the dimensions `dim`, the batch included",
           .inputs = {{"x", PortType::kAny}},
           .outputs = {{"y", PortType::kAny}},
           .infer = InferTo,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMustShare, 0, 0}},
           .traits = {.view = true},
           .samples = ToSamples}};
}

}  // namespace snug::core::ops::reshape
