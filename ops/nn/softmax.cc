// softmax and log_softmax along one axis, and their gradients, which read only the output (so the input may be
// overwritten). The axis may lie anywhere: x is seen as [outer, axis, inner]. With inner = 1 a row is contiguous:
// reductions of long rows go through lanes, short ones are turned into columns of a tile. Columns, as there are with
// inner > 1 too, are done `inner` neighbours at once.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/along_axis.h"
#include "ops/kit/costs.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"
#include "ops/kit/vec_math.h"
#include "ops/nn/row_tile.h"
#include "ops/nn/rows_cuda.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::softmax {
namespace {

using proto::ParseOptions;

constexpr int64_t kChunk = 1 << 14;  // elements in a piece of work
constexpr int64_t kStrip = 64;       // so many neighbours are done at once

AlongAxis ViewOf(const KernelContext& k) {
  const Shape& shape = k.output_type(0).shape;
  return AlongAxis(shape, NormalizeAxis(k.options<proto::Softmax>().axis(), shape.rank()).value());
}

absl::Status CheckAxis(const InferContext& c) {
  const absl::StatusOr<int> axis = NormalizeAxis(c.options<proto::Softmax>().axis(), c.shape(0).rank());
  if (!axis.ok()) return c.OptionError("axis", axis.status().message());
  return absl::OkStatus();
}

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckAxis(c));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckAxis(c));
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, c.shape(0)));
  c.SetOutput(0, c.input(1));
  return absl::OkStatus();
}

absl::Status SoftmaxGradient(GradContext& g) { return GradientFromOutput(g, "softmax_grad"); }

absl::Status LogSoftmaxGradient(GradContext& g) { return GradientFromOutput(g, "log_softmax_grad"); }

// Calls row(first element) for each row where inner = 1, and otherwise strip(first element, columns) for each strip of
// columns.
template <class Row, class Strip>
void ForEachRow(int threads, const AlongAxis& view, Row row, Strip strip) {
  if (view.inner == 1) {
    ParallelFor(threads, view.outer, std::max<int64_t>(1, kChunk / std::max<int64_t>(1, view.width)),
                [=](int64_t begin, int64_t end) {
                  WithIsa([=]() SNUG_LAMBDA {
                    for (int64_t r = begin; r < end; ++r) row(r * view.width);
                  });
                });
    return;
  }
  const int64_t strips = (view.inner + kStrip - 1) / kStrip;
  ParallelFor(threads, view.outer * strips, std::max<int64_t>(1, kChunk / (kStrip * std::max<int64_t>(1, view.width))),
              [=](int64_t begin, int64_t end) {
                WithIsa([=]() SNUG_LAMBDA {
                  for (int64_t s = begin; s < end; ++s) {
                    const int64_t column = s % strips * kStrip;
                    strip(s / strips * view.width * view.inner + column, std::min(kStrip, view.inner - column));
                  }
                });
              });
}

bool HasShortRows(const AlongAxis& view) { return view.inner == 1 && view.width <= kShortRow; }

// Where the output holds a power as it was computed, it is not computed twice. bfloat16 would round it.
template <class T, bool kLog>
inline constexpr bool kKeepsPowers = !kLog && std::is_same_v<T, Accumulator<T>>;

// Computes b from the first `columns` columns of a, of n elements that lie `inner` apart. b may be a.
template <bool kLog, class T>
SNUG_INLINE void ForwardColumns(int64_t n, int64_t inner, int64_t columns, const T* a, T* b) {
  using A = Accumulator<T>;
  A most[kStrip], sum[kStrip];
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < columns; ++j) {
    most[j] = static_cast<A>(a[j]);
    sum[j] = 0;
  }
  for (int64_t i = 1; i < n; ++i) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < columns; ++j) {
      const A v = static_cast<A>(a[i * inner + j]);
      most[j] = v > most[j] ? v : most[j];
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < columns; ++j) {
      const A power = ExpOrZero(static_cast<A>(a[i * inner + j]) - most[j]);
      if constexpr (kKeepsPowers<T, kLog>) b[i * inner + j] = power;
      sum[j] += power;
    }
  }
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < columns; ++j) sum[j] = kLog ? Log(sum[j]) : 1 / sum[j];
  for (int64_t i = 0; i < n; ++i) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < columns; ++j) {
      if constexpr (kKeepsPowers<T, kLog>) {
        b[i * inner + j] *= sum[j];
      } else {
        const A v = static_cast<A>(a[i * inner + j]) - most[j];
        b[i * inner + j] = static_cast<T>(kLog ? v - sum[j] : ExpOrZero(v) * sum[j]);
      }
    }
  }
}

template <class T, bool kLog>
void Forward(const KernelContext& k) {
  using A = Accumulator<T>;
  const T* x = k.input<T>(0);
  T* y = k.output<T>(0);
  const AlongAxis view = ViewOf(k);
  const int64_t n = view.width;
  if (HasShortRows(view)) {
    const T* end = x + view.outer * n;
    ForEachRowTile(k.threads(), view.outer, kChunk / std::max<int64_t>(1, n),
                   [=](auto isa, int64_t row, int64_t count) SNUG_LAMBDA {
                     RowTile<A> tile;
                     LoadRows<isa()>(x + row * n, n, n, count, end, tile.at);
                     ForwardColumns<kLog>(n, kTileRows, kTileRows, tile.at, tile.at);
                     StoreRows<isa()>(tile.at, n, count, y + row * n, n);
                   });
    return;
  }
  ForEachRow(
      k.threads(), view,
      [=](int64_t first) SNUG_LAMBDA {
        const T* a = x + first;
        T* b = y + first;
        const A most = LaneMax<A>(n, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(a[i]); });
        if constexpr (kKeepsPowers<T, kLog>) {
          SNUG_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) b[i] = ExpOrZero(a[i] - most);
          const A scale = static_cast<A>(1 / LaneSum<A>(n, [=](int64_t i) SNUG_LAMBDA { return b[i]; }));
          SNUG_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) b[i] *= scale;
          return;
        }
        const double sum = LaneSum<A>(n, [=](int64_t i) SNUG_LAMBDA { return ExpOrZero(static_cast<A>(a[i]) - most); });
        if constexpr (kLog) {
          const A log_sum = static_cast<A>(std::log(sum));
          SNUG_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) b[i] = static_cast<T>(static_cast<A>(a[i]) - most - log_sum);
        } else {
          const A scale = static_cast<A>(1 / sum);
          SNUG_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) b[i] = static_cast<T>(ExpOrZero(static_cast<A>(a[i]) - most) * scale);
        }
      },
      [=](int64_t first, int64_t columns)
          SNUG_LAMBDA { ForwardColumns<kLog>(n, view.inner, columns, x + first, y + first); });
}

// For softmax, dx = y (dy - sum(y dy)); for log_softmax, dx = dy - exp(y) sum(dy).
template <bool kLog, class A>
SNUG_INLINE A Term(A y, A dy) {
  return kLog ? dy : y * dy;
}
template <bool kLog, class A>
SNUG_INLINE A Element(A y, A dy, A sum) {
  return kLog ? dy - ExpOrZero(y) * sum : y * (dy - sum);
}

// Computes dx as ForwardColumns does b. It may be y or dy.
template <bool kLog, class T>
SNUG_INLINE void BackwardColumns(int64_t n, int64_t inner, int64_t columns, const T* y, const T* dy, T* dx) {
  using A = Accumulator<T>;
  A sum[kStrip];
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < columns; ++j) sum[j] = 0;
  for (int64_t i = 0; i < n; ++i) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < columns; ++j) {
      sum[j] += Term<kLog>(static_cast<A>(y[i * inner + j]), static_cast<A>(dy[i * inner + j]));
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t at = i * inner + j;
      dx[at] = static_cast<T>(Element<kLog>(static_cast<A>(y[at]), static_cast<A>(dy[at]), sum[j]));
    }
  }
}

template <class T, bool kLog>
void Backward(const KernelContext& k) {
  using A = Accumulator<T>;
  const T* y = k.input<T>(0);
  const T* dy = k.input<T>(1);
  T* dx = k.output<T>(0);
  const AlongAxis view = ViewOf(k);
  const int64_t n = view.width;
  if (HasShortRows(view)) {
    const int64_t size = view.outer * n;
    ForEachRowTile(k.threads(), view.outer, kChunk / std::max<int64_t>(1, n),
                   [=](auto isa, int64_t row, int64_t count) SNUG_LAMBDA {
                     RowTile<A> a, b;
                     LoadRows<isa()>(y + row * n, n, n, count, y + size, a.at);
                     LoadRows<isa()>(dy + row * n, n, n, count, dy + size, b.at);
                     BackwardColumns<kLog>(n, kTileRows, kTileRows, a.at, b.at, a.at);
                     StoreRows<isa()>(a.at, n, count, dx + row * n, n);
                   });
    return;
  }
  ForEachRow(
      k.threads(), view,
      [=](int64_t first) SNUG_LAMBDA {
        const T *a = y + first, *b = dy + first;
        T* c = dx + first;
        const A sum = static_cast<A>(LaneSum<A>(
            n, [=](int64_t i) SNUG_LAMBDA { return Term<kLog>(static_cast<A>(a[i]), static_cast<A>(b[i])); }));
        SNUG_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          c[i] = static_cast<T>(Element<kLog>(static_cast<A>(a[i]), static_cast<A>(b[i]), sum));
        }
      },
      [=](int64_t first, int64_t columns)
          SNUG_LAMBDA { BackwardColumns<kLog>(n, view.inner, columns, y + first, dy + first, dx + first); });
}

template <bool kLog>
absl::Status ForwardCpu(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    Forward<decltype(zero), kLog>(k);
    return absl::OkStatus();
  });
}

template <bool kLog>
absl::Status BackwardCpu(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    Backward<decltype(zero), kLog>(k);
    return absl::OkStatus();
  });
}

#if SNUG_HAS_CUDA
template <bool kLog>
absl::Status ForwardCuda(const KernelContext& k) {
  const AlongAxis view = ViewOf(k);
  return SoftmaxCuda(k, kLog, view.outer, view.width, view.inner);
}

template <bool kLog>
absl::Status BackwardCuda(const KernelContext& k) {
  const AlongAxis view = ViewOf(k);
  return SoftmaxGradCuda(k, kLog, view.outer, view.width, view.inner);
}
#endif

void Samples(SampleBuilder& s) {
  s.Case("last_axis").Input({4, 7});
  s.Case("wide").Input({3, 133}).Range(-4, 4);
  s.Case("middle_axis").With(ParseOptions<proto::Softmax>("axis: 1")).Input({2, 5, 3});
  s.Case("strips").With(ParseOptions<proto::Softmax>("axis: 1")).Input({2, 9, 7, 11});
  s.Case("first_axis").With(ParseOptions<proto::Softmax>("axis: 0")).Input({5, 19});
  s.Case("one").Input({3, 1});
  s.Case("short_rows").Input({35, 10}).Range(-4, 4);
  s.Case("rows_of_a_tile").Input({2, 17, 37}).Range(-4, 4);
  s.Case("vector").Input({70}).Range(-30, 30);
  // On CUDA a warp holds a row, a block holds it, and a block streams it, 16 bytes at a time.
  s.Case("whole_packs").Input({3, 72}).Range(-4, 4);
  s.Case("row_of_a_block").Input({2, 1600}).Range(-4, 4).NoGradient();
  s.Case("long_row").Input({2, 8704}).Range(-4, 4).NoGradient();
  s.Case("bad_axis").With(ParseOptions<proto::Softmax>("axis: 2")).Input({4, 3}).Fails("option \"axis\"");
}

void SoftmaxSamples(SampleBuilder& s) {
  Samples(s);
  s.Case("known").Input({1, 2}).Values({1000, 1000}).NoGradient().Expect(0, {0.5, 0.5});
}

void LogSoftmaxSamples(SampleBuilder& s) {
  Samples(s);
  s.Case("known")
      .Input({1, 2})
      .Values({1000, 1000})
      .NoGradient()
      .Expect(0, {-0.693147180559945309, -0.693147180559945309});
}

void GradSamples(SampleBuilder& s) {
  s.Case("last_axis").Input({4, 7}).Range(-2, 0).Input({4, 7});
  s.Case("short_rows").Input({35, 10}).Range(-2, 0).Input({35, 10});
  s.Case("rows_of_a_tile").Input({2, 17, 37}).Range(-2, 0).Input({2, 17, 37});
  s.Case("wide").Input({3, 133}).Range(-2, 0).Input({3, 133});
  s.Case("whole_packs").Input({3, 72}).Range(-2, 0).Input({3, 72});
  s.Case("row_of_a_block").Input({2, 1600}).Range(-2, 0).Input({2, 1600});
  s.Case("long_row").Input({2, 8704}).Range(-2, 0).Input({2, 8704});
  s.Case("strips").With(ParseOptions<proto::Softmax>("axis: 1")).Input({2, 9, 7, 11}).Range(-2, 0).Input({2, 9, 7, 11});
  s.Case("shape").Input({4, 7}).Input({4, 6}).Fails("input 1 \"dy\" [4, 6]: expected shape [4, 7]");
}

}  // namespace

SNUG_OPS(softmax) {
  const auto forward = [](absl::string_view name, absl::string_view doc, GradientFn gradient, KernelFn cpu,
                          KernelFn cuda, SamplesFn samples) {
    return OpDef{.name = name,
                 .doc = doc,
                 .inputs = {{"x"}},
                 .outputs = {{"y"}},
                 .infer = Infer,
                 .gradient = gradient,
                 .aliases = {{Alias::Kind::kMayShare, 0, 0}},
                 .cost = FlopsPerElement<5>,
                 .kernels = {Plain(std::move(cpu)), OwnOnCuda(std::move(cuda))},
                 .samples = samples};
  };
  const auto backward = [](absl::string_view name, absl::string_view doc, KernelFn cpu, KernelFn cuda) {
    return OpDef{.name = name,
                 .doc = doc,
                 .inputs = {{"y"}, {"dy"}},
                 .outputs = {{"dx"}},
                 .infer = InferGrad,
                 .aliases = {{Alias::Kind::kMayShare, 0, 1}, {Alias::Kind::kMayShare, 0, 0}},
                 .cost = FlopsPerElement<5>,
                 .kernels = {Plain(std::move(cpu)), OwnOnCuda(std::move(cuda))},
                 .samples = GradSamples};
  };
  return {
      forward("softmax", "y = exp(x) / sum(exp(x)) along `axis`", SoftmaxGradient, ForwardCpu<false>,
              SNUG_IF_CUDA(ForwardCuda<false>), SoftmaxSamples),
      backward("softmax_grad", "dx = y (dy - sum(y dy))", BackwardCpu<false>, SNUG_IF_CUDA(BackwardCuda<false>)),
      forward("log_softmax", "y = x - log(sum(exp(x))) along `axis`", LogSoftmaxGradient, ForwardCpu<true>,
              SNUG_IF_CUDA(ForwardCuda<true>), LogSoftmaxSamples),
      backward("log_softmax_grad", "dx = dy - exp(y) sum(dy)", BackwardCpu<true>, SNUG_IF_CUDA(BackwardCuda<true>))};
}

}  // namespace snug::core::ops::softmax
