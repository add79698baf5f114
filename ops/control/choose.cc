// choose: rows of a or of b. keep: rows of x, or zeros. Rows that are not taken are never looked at, so that what is
// not finite there does not count: not in the value, and not in the gradient either, which flows to the rows taken.
#include <cmath>
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/control/control_cuda.h"
#include "ops/control/row_mask.h"
#include "ops/grad_context.h"
#include "ops/kernel_context.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops::choose {
namespace {

constexpr int64_t kChunk = 1 << 15;

absl::Status Infer(InferContext& c) {
  if (c.input(1).dtype != c.input(2).dtype || !(c.shape(1) == c.shape(2))) {
    return c.InputError(2, "expected a value like input 1 \"a\", " + c.input(1).ToString());
  }
  c.SetOutput(0, c.input(1));
  return CheckRowMask(c, 0, c.shape(1));
}

absl::Status Gradient(GradContext& g) {
  proto::Keep rest;
  rest.set_inverted(true);
  if (g.wants(1)) g.SetInputGrad(1, g.Op("keep", {g.input(0), g.output_grad(0)}, {}, "chosen"));
  if (g.wants(2)) g.SetInputGrad(2, g.Op("keep", {g.input(0), g.output_grad(0)}, proto::MakeOptions(rest), "rest"));
  return g.status();
}

absl::Status KeepInfer(InferContext& c) {
  c.SetOutput(0, c.input(1));
  return CheckRowMask(c, 0, c.shape(1));
}

absl::Status KeepGradient(GradContext& g) {
  g.SetInputGrad(1, g.Op("keep", {g.input(0), g.output_grad(0)}, g.options_handle()));
  return g.status();
}

// Writes rows of `a` where the mask counts and rows of `b` elsewhere; null stands for zeros. The output may be either.
void CopyRows(const KernelContext& k, const char* a, const char* b) {
  const auto* mask = k.input<uint8_t>(0);
  char* y = k.output<char>(0);
  const int64_t each = BytesForEach(k.input_type(0), k.output_type(0));
  ParallelFor(k.threads(), k.output_type(0).size_bytes(), kChunk, [=](int64_t first, int64_t last) {
    ForEachRange(mask, each, first, last, [=](int64_t begin, int64_t end, bool counts) {
      const char* from = counts ? a : b;
      const auto bytes = static_cast<size_t>(end - begin);
      if (from == nullptr) {
        std::memset(y + begin, 0, bytes);
      } else if (from != y) {
        std::memcpy(y + begin, from + begin, bytes);
      }
    });
  });
}

absl::Status Kernel(const KernelContext& k) {
  CopyRows(k, k.input<char>(1), k.input<char>(2));
  return absl::OkStatus();
}

bool KeepsRest(const KernelContext& k) { return k.options<proto::Keep>().inverted(); }

absl::Status KeepKernel(const KernelContext& k) {
  const char* x = k.input<char>(1);
  CopyRows(k, KeepsRest(k) ? nullptr : x, KeepsRest(k) ? x : nullptr);
  return absl::OkStatus();
}

void Samples(SampleBuilder& s) {
  s.Case("rows")
      .Bytes({3})
      .Values({1, 0, 2})
      .Input({3, 2})
      .Values({1, 2, 3, 4, 5, 6})
      .Input({3, 2})
      .Values({-1, -2, -3, -4, -5, -6})
      .Expect(0, {1, 2, -3, -4, 5, 6});
  s.Case("all").Bytes({}).Values({1}).Input({3, 5}).Input({3, 5});
  s.Case("none").Bytes({1}).Values({0}).Input({3, 5}).Input({3, 5});
  s.Case("large").Bytes({6}, 0, 2).Input({6, 70, 99}).Input({6, 70, 99});
  s.Case("image").Bytes({4}, 0, 2).Input({4, 3, 5, 5}).Input({4, 3, 5, 5});
  s.Case("integers").Bytes({3}).Values({1, 0, 1}).Int({3}, 0, 9).Int({3}, 0, 9);
  s.Case("not_taken_does_not_count")
      .Bytes({2})
      .Values({0, 1})
      .Input({2})
      .Values({NAN, 2})
      .NoGradient()
      .Input({2})
      .Values({3, INFINITY})
      .NoGradient()
      .Expect(0, {3, 2});
  s.Case("mask_of_other_rows").Bytes({2}).Input({3, 2}).Input({3, 2}).Fails("or one for each of the 3 rows of [3, 2]");
  s.Case("other_shape").Bytes({}).Input({3, 2}).Input({2, 3}).Fails("expected a value like input 1 \"a\"");
}

void KeepSamples(SampleBuilder& s) {
  const auto rest = proto::ParseOptions<proto::Keep>("inverted: true");
  s.Case("rows").Bytes({3}).Values({1, 0, 2}).Input({3, 2}).Values({1, 2, 3, 4, 5, 6}).Expect(0, {1, 2, 0, 0, 5, 6});
  s.Case("rest")
      .Bytes({3})
      .Values({1, 0, 2})
      .Input({3, 2})
      .Values({1, 2, 3, 4, 5, 6})
      .With(rest)
      .Expect(0, {0, 0, 3, 4, 0, 0});
  s.Case("all").Bytes({}).Values({1}).Input({3, 5});
  s.Case("large").Bytes({6}, 0, 2).Input({6, 70, 99}).With(rest);
  s.Case("not_kept_does_not_count")
      .Bytes({2})
      .Values({0, 1})
      .Input({2})
      .Values({NAN, 2})
      .NoGradient()
      .Expect(0, {0, 2});
  s.Case("mask_of_other_rows").Bytes({2}).Input({3}).Fails("or one for each of the 3 rows of [3]");
  s.Case("mask_of_a_number").Bytes({2}).Input({}).Fails("expected one number");
}

}  // namespace

SNUG_OPS(choose) {
  const Port mask{.name = "mask", .type = PortType::kBytes, .plain_layout = true};
  return {{.name = "choose",
           .doc = "y = rows of a where the mask is not 0, else rows of b",
           .inputs = {mask, {"a", PortType::kAny}, {"b", PortType::kAny}},
           .outputs = {{"y", PortType::kAny}},
           .infer = Infer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 1}, {Alias::Kind::kMayShare, 0, 2}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .kernels = {Plain(Kernel), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         return ChooseRowsCuda(k, k.input<void>(1), k.input<void>(2));
                       }))},
           .samples = Samples},
          {.name = "keep",
           .doc = "y = rows of x where the mask is not 0 (where it is, if `inverted`), else zeros",
           .inputs = {mask, {"x", PortType::kAny}},
           .outputs = {{"y", PortType::kAny}},
           .infer = KeepInfer,
           .gradient = KeepGradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 1}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .kernels = {Plain(KeepKernel), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         return ChooseRowsCuda(k, KeepsRest(k) ? nullptr : k.input<void>(1),
                                               KeepsRest(k) ? k.input<void>(1) : nullptr);
                       }))},
           .samples = KeepSamples}};
}

}  // namespace snug::core::ops::choose
