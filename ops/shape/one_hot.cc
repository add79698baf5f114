// one_hot: rows of zeros with a one at the place that an integer names; the rows are a new last axis.
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/copy/gather_rows.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/isa.h"
#include "ops/layer_context.h"
#include "ops/math/values_cuda.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/data_type.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::one_hot {
namespace {

constexpr int64_t kChunk = 1 << 15;  // the fewest elements in a piece of work

absl::Status Infer(InferContext& c) {
  const auto& options = c.options<proto::OneHot>();
  const Shape& x = c.shape(0);
  if (x.rank() == kMaxRank) {
    return c.InputError(0, absl::StrCat("expected at most ", kMaxRank - 1, " dimensions, because one is appended"));
  }
  if (options.classes() < 1 || options.classes() > kMaxElements) {
    return c.OptionError("classes", absl::StrCat("expected between 1 and 2^46, found ", options.classes()));
  }
  const DType dtype = proto::ToDType(options.dtype(), DType::kInt32);  // FLOAT, if the layer has not made it definite
  if (!IsFloating(dtype)) return c.OptionError("dtype", "expected FLOAT32, BFLOAT16 or FLOAT64");
  Shape y = x;
  y.Append(options.classes());
  c.SetOutput(0, dtype, y);
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckInputs(1));
  proto::OneHot options = c.options<proto::OneHot>();
  options.set_dtype(proto::FromDType(proto::ToDType(options.dtype(), c.floating())));
  c.SetOutput(0, c.Op("one_hot", {c.input(0)}, proto::MakeOptions(options)));
  return c.status();
}

int64_t IndexBound(const NodeTypes& types, int) { return types.options.Get<proto::OneHot>().classes(); }

Cost CostOfNode(const NodeTypes&) { return {}; }

template <class T, class Index>
void Write(int threads, int64_t rows, int64_t classes, const Index* indices, T* y) {
  const T one = static_cast<T>(Accumulator<T>(1));
  ParallelFor(threads, rows, std::max<int64_t>(1, kChunk / classes), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA { std::fill(y + begin * classes, y + end * classes, T{}); });
    for (int64_t row = begin; row < end; ++row) y[row * classes + indices[row]] = one;
  });
}

absl::Status Kernel(const KernelContext& k) {
  const int64_t classes = k.options<proto::OneHot>().classes();
  SNUG_RETURN_IF_ERROR(CheckChoices(k, 0, classes, "indices"));
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return DispatchInteger(k.input_type(0).dtype, [&](auto integer) {
      Write(k.threads(), k.input_type(0).num_elements(), classes, k.input<decltype(integer)>(0),
            k.output<decltype(zero)>(0));
      return absl::OkStatus();
    });
  });
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::OneHot>;
  s.Case("labels").Int({9}, 0, 5).With(options("classes: 5 dtype: FLOAT32"));
  s.Case("matrix").Int({4, 3}, 0, 19, DType::kInt64).With(options("classes: 19 dtype: FLOAT64"));
  s.Case("bfloat16").Int({3, 5}, 0, 7).With(options("classes: 7 dtype: BFLOAT16"));
  s.Case("many").Int({300}, 0, 333).With(options("classes: 333 dtype: FLOAT32"));
  s.Case("one").Int({}, 0, 4).With(options("classes: 4 dtype: FLOAT32"));
  s.Case("one_class").Int({3}, 0, 1).With(options("classes: 1 dtype: FLOAT32")).Expect(0, {1, 1, 1});
  s.Case("known")
      .Int({2}, 0, 3)
      .Values({2, 0})
      .With(options("classes: 3 dtype: FLOAT32"))
      .Expect(0, {0, 0, 1, 1, 0, 0});
  s.Case("too_large")
      .Int({2, 2}, 0, 3)
      .Values({0, 1, 3, 0})
      .With(options("classes: 3 dtype: FLOAT32"))
      .FailsAtRun("indices[1, 0]: expected an entry in [0, 3), found 3");
  s.Case("negative")
      .Int({1}, 0, 3)
      .Values({-1})
      .With(options("classes: 3 dtype: FLOAT32"))
      .FailsAtRun("indices[0]: expected an entry in [0, 3), found -1");
  s.Case("no_classes").Int({3}, 0, 3).With(options("dtype: FLOAT32")).Fails("\"classes\": expected between 1 and 2^46");
  s.Case("integers")
      .Int({3}, 0, 3)
      .With(options("classes: 3 dtype: INT32"))
      .Fails("option \"dtype\": expected FLOAT32");
  s.Case("no_type").Int({3}, 0, 3).With(options("classes: 3")).Fails("option \"dtype\": expected FLOAT32");
  s.Case("floats")
      .Input({3})
      .As(DType::kFloat32)
      .With(options("classes: 3 dtype: FLOAT32"))
      .Fails("expected int32 or int64");
  s.Case("too_deep")
      .Int({1, 1, 1, 1, 1, 1, 1, 1}, 0, 3)
      .With(options("classes: 3 dtype: FLOAT32"))
      .Fails("expected at most 7 dimensions");
}

}  // namespace

SNUG_OPS(one_hot) {
  return {{.name = "one_hot",
           .doc = "y = rows of `classes` zeros with a one where the index says, along a new last axis",
           .inputs = {{"indices", PortType::kInteger}},
           .outputs = {{"y"}},
           .infer = Infer,
           .layer = Layer,
           .index_bound = IndexBound,
           .cost = CostOfNode,
           .kernels = {Plain(Kernel), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         return OneHotCuda(k, k.options<proto::OneHot>().classes());
                       }))},
           .samples = Samples}};
}

}  // namespace snug::core::ops::one_hot
