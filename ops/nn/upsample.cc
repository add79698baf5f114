// upsample: an image of another size. Each pixel is the nearest of x or, bilinear, between those around it. The
// gradient needs only shapes.
#include "ops/kernels/upsample/upsample.h"

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kit/options.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::upsample {
namespace {

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 3, 5));
  const ValueType& x = c.input(0);
  SNUG_ASSIGN_OR_RETURN(const UpsampleGeometry g,
                        MakeUpsampleGeometry(c.options<proto::Upsample>(), x.shape, x.layout));
  c.SetOutput(0, x.dtype, UpsampledShape(g, x.shape), x.layout);
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  const auto& options = c.options<proto::UpsampleGrad>();
  const ValueType& dy = c.input(0);
  SNUG_ASSIGN_OR_RETURN(const Shape x, ShapeOption(options));
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, x.rank(), x.rank()));
  SNUG_ASSIGN_OR_RETURN(const UpsampleGeometry g, MakeUpsampleGeometry(options.upsample(), x, dy.layout));
  SNUG_RETURN_IF_ERROR(c.CheckShape(0, UpsampledShape(g, x)));
  c.SetOutput(0, dy.dtype, x, dy.layout);
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  proto::UpsampleGrad options;
  *options.mutable_upsample() = g.options<proto::Upsample>();
  SetShapeOption(g.input_type(0).shape, &options);
  g.SetInputGrad(0, g.Op("upsample_grad", {g.output_grad(0)}, proto::MakeOptions(options)));
  return g.status();
}

// Both are of nodes whose options inference has checked.
UpsampleGeometry Forward(const NodeTypes& t) {
  return *MakeUpsampleGeometry(t.options.Get<proto::Upsample>(), t.input(0).shape, t.input(0).layout);
}
UpsampleGeometry Backward(const NodeTypes& t) {
  return *MakeUpsampleGeometry(t.options.Get<proto::UpsampleGrad>().upsample(), t.output(0).shape, t.output(0).layout);
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::Upsample>;
  s.Case("twice").Input({2, 19, 4, 5}).With(options("scale: 2"));
  s.Case("three_times").Input({2, 3, 4, 5}).With(options("scale: 3"));
  s.Case("uneven").Input({2, 3, 4, 5}).With(options("size: [7, 8]"));
  s.Case("two_scales").Input({1, 16, 4, 6}).With(options("scale: [1, 1.5]"));
  s.Case("smaller").Input({2, 3, 7, 9}).With(options("size: [3, 4]"));
  s.Case("one_pixel").Input({3, 5, 1, 1}).With(options("size: [3, 4]"));
  s.Case("to_one_pixel").Input({2, 5, 4, 3}).With(options("size: 1"));
  s.Case("line").Input({2, 3, 9}).With(options("scale: 2"));
  s.Case("volume").Input({1, 18, 2, 3, 4}).With(options("scale: [2, 1, 2]"));
  s.Case("many_rows").Input({2, 70, 3, 2}).With(options("scale: 2"));
  s.Case("known").Input({1, 1, 3}).Values({1, 2, 3}).With(options("size: 5")).Expect(0, {1, 1, 2, 2, 3});

  s.Case("bilinear").Input({2, 19, 4, 5}).With(options("scale: 2 mode: BILINEAR"));
  s.Case("bilinear_uneven").Input({2, 3, 4, 5}).With(options("size: [7, 8] mode: BILINEAR"));
  s.Case("bilinear_smaller").Input({2, 3, 7, 9}).With(options("size: [3, 4] mode: BILINEAR"));
  s.Case("bilinear_one_pixel").Input({3, 5, 1, 1}).With(options("size: [3, 4] mode: BILINEAR"));
  s.Case("bilinear_to_one_pixel").Input({2, 5, 4, 3}).With(options("size: 1 mode: BILINEAR"));
  s.Case("bilinear_line").Input({2, 3, 9}).With(options("scale: 3 mode: BILINEAR"));
  s.Case("bilinear_volume").Input({1, 18, 2, 3, 4}).With(options("scale: 2 mode: BILINEAR"));
  s.Case("bilinear_many_channels").Input({2, 72, 3, 2}).With(options("scale: 2 mode: BILINEAR"));
  s.Case("aligned").Input({2, 19, 4, 5}).With(options("scale: 2 mode: BILINEAR align_corners: true"));
  s.Case("aligned_uneven").Input({2, 3, 4, 5}).With(options("size: [7, 3] mode: BILINEAR align_corners: true"));
  s.Case("aligned_one_pixel").Input({3, 5, 1, 1}).With(options("size: [3, 4] mode: BILINEAR align_corners: true"));
  s.Case("aligned_to_one_pixel").Input({2, 5, 4, 3}).With(options("size: 1 mode: BILINEAR align_corners: true"));
  s.Case("aligned_volume").Input({1, 3, 2, 3, 4}).With(options("scale: 2 mode: BILINEAR align_corners: true"));
  s.Case("bilinear_known")
      .Input({1, 1, 2, 2})
      .Values({0, 4, 8, 12})
      .With(options("scale: 2 mode: BILINEAR"))
      .Expect(0, {0, 1, 3, 4, 2, 3, 5, 6, 6, 7, 9, 10, 8, 9, 11, 12});
  s.Case("aligned_known")
      .Input({1, 1, 2, 2})
      .Values({0, 3, 6, 9})
      .With(options("size: [3, 4] mode: BILINEAR align_corners: true"))
      .Expect(0, {0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9});

  const auto bad = [&](const char* name, const char* text, const char* message) {
    s.Case(name).Input({1, 2, 5, 6}).With(options(text)).Fails(message);
  };
  bad("nothing", "", "option \"scale\": is missing, and so is \"size\"");
  bad("both", "scale: 2 size: 3", "option \"size\": goes without \"scale\" only");
  bad("zero", "scale: 0", "option \"scale\": expected more than 0, and at most 16777216 along axis 2, found 0");
  bad("huge", "scale: 1e30", "option \"scale\": expected more than 0, and at most 16777216 along axis 2, found 1e+30");
  bad("scale_count", "scale: [2, 2, 2]", "option \"scale\": expected 1 or 2 numbers, found 3");
  bad("part_of_a_pixel", "scale: 1.5", "option \"scale\": 1.5 times the 5 of axis 2 is no whole number");
  bad("size_0", "size: 0", "option \"size\": expected between 1 and");
  bad("size_count", "size: [2, 2, 2]", "option \"size\": expected 1 or 2 numbers");
  bad("size_huge", "size: 16777217", "option \"size\": expected axes of at most 16777216, found 5 and 16777217");
  bad("aligned_nearest", "scale: 2 align_corners: true",
      "option \"align_corners\": goes with mode: BILINEAR only, found mode: NEAREST");
  s.Case("rank").Input({2, 3}).With(options("scale: 2")).Fails("expected 3 to 5 dimensions");
}

void GradSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::UpsampleGrad>;
  s.Case("twice").Input({2, 3, 8, 10}).With(options("upsample { scale: 2 } dim: [2, 3, 4, 5]"));
  s.Case("smaller").Input({2, 19, 2, 3}).With(options("upsample { size: [2, 3] } dim: [2, 19, 5, 7]"));
  s.Case("bilinear").Input({2, 72, 8, 9}).With(options("upsample { size: [8, 9] mode: BILINEAR } dim: [2, 72, 4, 5]"));
  s.Case("known")
      .Input({1, 1, 5})
      .Values({1, 2, 3, 4, 5})
      .With(options("upsample { size: 5 } dim: [1, 1, 3]"))
      .Expect(0, {3, 7, 5});
  s.Case("bilinear_known")
      .Input({1, 1, 4})
      .Values({4, 8, 12, 16})
      .With(options("upsample { scale: 2 mode: BILINEAR } dim: [1, 1, 2]"))
      .Expect(0, {13, 27});
  s.Case("wrong_shape")
      .Input({2, 3, 4})
      .With(options("upsample { scale: 2 } dim: [2, 3, 3]"))
      .Fails("expected shape [2, 3, 6]");
  s.Case("wrong_rank").Input({2, 3, 4}).With(options("upsample { scale: 2 } dim: [2, 3, 2, 2]")).Fails("expected 4");
}

}  // namespace

SNUG_OPS(upsample) {
  constexpr Traits kTraits = {.layout = LayoutRule::kAgnostic};
  return {
      {.name = "upsample",
       .doc = "y = x with each spatial dimension of another size: the nearest pixel, or what lies between pixels",
       .inputs = {{"x"}},
       .outputs = {{"y"}},
       .infer = Infer,
       .gradient = Gradient,
       .traits = kTraits,
       .kernels = {{.name = "plain",
                    .prepare = [](PrepareContext& c) { return PrepareUpsample(c, Forward(c.types())); },
                    .run = [](const KernelContext& k) { return Upsample(k, Forward(k.types())); }},
                   OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) { return UpsampleCuda(k, Forward(k.types())); }))},
       .samples = Samples},
      {.name = "upsample_grad",
       .doc = "dx = the sum of dy over the pixels that took from it, each times its share",
       .inputs = {{"dy"}},
       .outputs = {{"dx"}},
       .infer = InferGrad,
       .traits = kTraits,
       .kernels = {{.name = "plain",
                    .prepare = [](PrepareContext& c) { return PrepareUpsampleGrad(c, Backward(c.types())); },
                    .run = [](const KernelContext& k) { return UpsampleGrad(k, Backward(k.types())); }},
                   OwnOnCuda(
                       SNUG_IF_CUDA([](const KernelContext& k) { return UpsampleGradCuda(k, Backward(k.types())); }))},
       .samples = GradSamples}};
}

}  // namespace snug::core::ops::upsample
