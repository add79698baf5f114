// argmax: the index of the largest along an axis, in int32; of equal ones the first. A NaN is larger than all else, as
// in PyTorch.
#include <algorithm>
#include <cmath>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/reduce/combine.h"
#include "ops/kit/along_axis.h"
#include "ops/kit/costs.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"
#include "ops/math/along_axis_cuda.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::argmax {
namespace {

constexpr int64_t kChunk = 1 << 15;      // the fewest elements in a piece of work
constexpr int64_t kStrip = 256;          // so many rows are done side by side where rows are not contiguous
constexpr int64_t kNarrow = 2 * kLanes;  // shorter rows are not worth lanes

absl::Status Infer(InferContext& c) {
  const auto& options = c.options<proto::ArgMax>();
  SNUG_ASSIGN_OR_RETURN(const int axis, NumberedAxis(c, options.axis()));
  const Shape& x = c.shape(0);
  c.SetOutput(0, DType::kInt32, options.keep_dims() ? x.WithDim(axis, 1) : x.Without(axis));
  return absl::OkStatus();
}

AlongAxis View(const KernelContext& k) {
  const Shape& x = k.input_type(0).shape;
  return {x, *NormalizeAxis(k.options<proto::ArgMax>().axis(), x.rank())};  // inference has checked it
}

template <class T>
SNUG_INLINE int32_t FirstLargest(int32_t n, const T* x) {
  using A = Accumulator<T>;
  const auto at = [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(x[i]); };
  if (n < kNarrow) {
    A most = at(0);
    int32_t first = 0;
    for (int32_t i = 1; i < n; ++i) {
      const A v = at(i);
      const bool larger = v > most || (v != v && most == most);
      most = larger ? v : most;
      first = larger ? i : first;
    }
    return first;
  }
  const A most = ReduceLanes<A>(0, n, at(0), at, [](A a, A b) SNUG_LAMBDA { return MaxOp::Combine(a, b); });
  const bool not_a_number = most != most;
  return ReduceLanes<int32_t>(
      0, n, n,
      [=](int64_t i) SNUG_LAMBDA {
        const A v = at(i);
        return (v == most) | ((v != v) & not_a_number) ? static_cast<int32_t>(i) : n;
      },
      [](int32_t a, int32_t b) SNUG_LAMBDA { return a < b ? a : b; });
}

// Does `width` rows whose elements i lie side by side, and `stride` further the next ones.
template <class T>
SNUG_INLINE void FirstLargestOfStrip(int32_t n, int64_t stride, int64_t width, const T* x, int32_t* first) {
  using A = Accumulator<T>;
  A most[kStrip];
  for (int64_t j = 0; j < width; ++j) {
    most[j] = static_cast<A>(x[j]);
    first[j] = 0;
  }
  for (int32_t i = 1; i < n; ++i) {
    const T* from = x + i * stride;
    for (int64_t j = 0; j < width; ++j) {
      const A v = static_cast<A>(from[j]);
      const bool larger = (v > most[j]) | ((v != v) & (most[j] == most[j]));
      most[j] = larger ? v : most[j];
      first[j] = larger ? i : first[j];
    }
  }
}

template <class T>
void Find(int threads, const AlongAxis& view, const T* x, int32_t* y) {
  const auto n = static_cast<int32_t>(view.width);
  const int64_t inner = view.inner;
  if (inner == 1) {
    ParallelFor(threads, view.outer, std::max<int64_t>(1, kChunk / n), [=](int64_t begin, int64_t end) {
      WithIsa([=]() SNUG_LAMBDA {
        for (int64_t row = begin; row < end; ++row) y[row] = FirstLargest(n, x + row * n);
      });
    });
    return;
  }
  const int64_t strips = (inner + kStrip - 1) / kStrip;
  const int64_t chunk = std::max<int64_t>(1, kChunk / (n * std::min(inner, kStrip)));
  ParallelFor(threads, view.outer * strips, chunk, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t row = unit / strips;
        const int64_t column = unit % strips * kStrip;
        FirstLargestOfStrip(n, inner, std::min(kStrip, inner - column), x + row * n * inner + column,
                            y + row * inner + column);
      }
    });
  });
}

absl::Status Kernel(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Find(k.threads(), View(k), k.input<T>(0), k.output<int32_t>(0));
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::ArgMax>;
  s.Case("rows").Input({5, 7});
  s.Case("wide").Input({3, 1300});
  s.Case("many_rows").Input({700, 3, 37});
  s.Case("channels").Input({2, 5, 9, 33}).With(options("axis: 1"));
  s.Case("middle").Input({3, 4, 3}).With(options("axis: -2 keep_dims: true"));
  s.Case("batch").Input({9, 5}).With(options("axis: 0"));
  s.Case("one").Input({4, 1, 3}).With(options("axis: 1"));
  s.Case("known").Input({2, 3}).Values({1, 3, 2, 6, 4, 5}).Expect(0, {1, 0});
  s.Case("ties").Input({2, 4}).Values({1, 2, 2, 0, 3, 3, 3, 3}).Expect(0, {1, 0});
  s.Case("ties_of_columns").Input({3, 2}).Values({1, 4, 2, 4, 2, 3}).With(options("axis: 0")).Expect(0, {1, 0});
  s.Case("not_a_number")
      .Input({3, 3})
      .Values({1, NAN, INFINITY, NAN, 2, NAN, -INFINITY, -INFINITY, -INFINITY})
      .Expect(0, {1, 0, 0});
  s.Case("not_a_number_in_columns")
      .Input({3, 2})
      .Values({1, NAN, NAN, 2, INFINITY, NAN})
      .With(options("axis: 0 keep_dims: true"))
      .Expect(0, {1, 0});
  std::vector<double> far(200, -1);
  far[150] = far[151] = far[70] = NAN;
  s.Case("not_a_number_far_on").Input({1, 200}).Values(far).Expect(0, {70});
  std::vector<double> equal(200, 2);
  equal[0] = 1;
  s.Case("ties_far_on").Input({1, 200}).Values(equal).Expect(0, {1});
  s.Case("bad_axis").Input({3, 4}).With(options("axis: 2")).Fails("axis 2: expected between -2 and 1");
  s.Case("batch_by_accident").Input({3}).Fails("axis -1 is the batch");
}

}  // namespace

SNUG_OPS(argmax) {
  return {{.name = "argmax",
           .doc = "y = the index of the largest of x along `axis`; of equal ones the first",
           .inputs = {{"x"}},
           .outputs = {{"y", PortType::kInteger}},
           .infer = Infer,
           .cost = FlopsPerElement<1>,
           .kernels = {Plain(Kernel),
                       OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) { return ArgMaxCuda(k, View(k)); }))},
           .samples = Samples}};
}

}  // namespace snug::core::ops::argmax
