// cumsum: each element is the sum of x along an axis up to it or, with `reverse`, from it to the end. The gradient is
// the other of the two. Sums are kept in double, so a long row loses no more than a short one.
#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/along_axis.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/isa.h"
#include "ops/math/along_axis_cuda.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::cumsum {
namespace {

constexpr int64_t kChunk = 1 << 15;  // the fewest elements in a piece of work
constexpr int64_t kStrip = 256;      // so many rows are done side by side where rows are not contiguous
constexpr int64_t kTogether = 8;     // so many contiguous rows: a sum has to wait for the one before it

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(AxisOption("axis", c.options<proto::CumulativeSum>().axis(), c.shape(0).rank()).status());
  c.SetOutput(0, c.input(0).dtype, c.shape(0));
  return absl::OkStatus();
}

AlongAxis View(const KernelContext& k) {
  const Shape& x = k.input_type(0).shape;
  return {x, *NormalizeAxis(k.options<proto::CumulativeSum>().axis(), x.rank())};  // inference has checked it
}

absl::Status Gradient(GradContext& g) {
  proto::CumulativeSum back = g.options<proto::CumulativeSum>();
  back.set_reverse(!back.reverse());
  g.SetInputGrad(0, g.Op("cumsum", {g.output_grad(0)}, proto::MakeOptions(back), "cumsum_grad"));
  return g.status();
}

// Does `rows` rows whose elements i lie `apart`, and `step` further the next ones.
template <class T>
SNUG_INLINE void SumRows(int64_t n, int64_t step, int64_t rows, int64_t apart, const T* x, T* y) {
  using A = Accumulator<T>;
  double sums[kStrip];
  for (int64_t r = 0; r < rows; ++r) sums[r] = 0;
  for (int64_t i = 0; i < n; ++i) {
    SNUG_INDEPENDENT
    for (int64_t r = 0; r < rows; ++r) {
      sums[r] += static_cast<double>(static_cast<A>(x[i * step + r * apart]));
      y[i * step + r * apart] = static_cast<T>(static_cast<A>(sums[r]));
    }
  }
}

template <class T>
void Sum(int threads, const AlongAxis& view, bool reverse, const T* x, T* y) {
  const int64_t n = view.width;
  const int64_t inner = view.inner;
  const int64_t first = reverse ? (n - 1) * inner : 0;  // of each row
  const int64_t step = reverse ? -inner : inner;
  if (inner == 1) {
    const int64_t groups = (view.outer + kTogether - 1) / kTogether;
    const int64_t chunk = std::max<int64_t>(1, kChunk / (n * kTogether));
    ParallelFor(threads, groups, chunk, [=](int64_t begin, int64_t end) {
      WithIsa([=]() SNUG_LAMBDA {
        for (int64_t row = begin * kTogether; row < std::min(view.outer, end * kTogether); row += kTogether) {
          const int64_t at = row * n + first;
          if (row + kTogether <= view.outer) {
            SumRows(n, step, kTogether, n, x + at, y + at);
          } else {
            SumRows(n, step, view.outer - row, n, x + at, y + at);
          }
        }
      });
    });
    return;
  }
  const int64_t strips = (inner + kStrip - 1) / kStrip;
  const int64_t chunk = std::max<int64_t>(1, kChunk / (n * std::min(inner, kStrip)));
  ParallelFor(threads, view.outer * strips, chunk, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t column = unit % strips * kStrip;
        const int64_t at = unit / strips * n * inner + column + first;
        SumRows(n, step, std::min(kStrip, inner - column), 1, x + at, y + at);
      }
    });
  });
}

absl::Status Kernel(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Sum(k.threads(), View(k), k.options<proto::CumulativeSum>().reverse(), k.input<T>(0), k.output<T>(0));
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::CumulativeSum>;
  s.Case("rows").Input({5, 7});
  s.Case("many_rows").Input({19, 5, 41}).With(options("reverse: true"));
  s.Case("wide").Input({2, 1300});
  s.Case("wide_from_the_end").Input({3, 700}).With(options("reverse: true"));
  s.Case("channels").Input({2, 5, 9, 33}).With(options("axis: 1"));
  s.Case("middle").Input({3, 4, 3}).With(options("axis: -2 reverse: true"));
  s.Case("batch").Input({9, 5}).With(options("axis: 0"));
  s.Case("one").Input({4, 1, 3}).With(options("axis: 1"));
  s.Case("known").Input({2, 3}).Values({1, 2, 3, 4, 5, 6}).Expect(0, {1, 3, 6, 4, 9, 15});
  s.Case("known_from_the_end")
      .Input({2, 3})
      .Values({1, 2, 3, 4, 5, 6})
      .With(options("reverse: true"))
      .Expect(0, {6, 5, 3, 15, 11, 6});
  s.Case("known_columns").Input({2, 2}).Values({1, 2, 3, 4}).With(options("axis: 0")).Expect(0, {1, 2, 4, 6});
  s.Case("bad_axis").Input({3, 4}).With(options("axis: 2")).Fails("axis 2: expected between -2 and 1");
  s.Case("batch_by_accident").Input({3}).Fails("axis -1 is the batch");
}

}  // namespace

SNUG_OPS(cumsum) {
  return {{.name = "cumsum",
           .doc = "y = the sums of x along `axis` up to each element, or from it on if `reverse`",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .infer = Infer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .kernels = {Plain(Kernel), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         return CumulativeSumCuda(k, View(k), k.options<proto::CumulativeSum>().reverse());
                       }))},
           .samples = Samples}};
}

}  // namespace snug::core::ops::cumsum
