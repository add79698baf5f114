// top_k: the k largest of x along an axis, the largest first, and their indices in int32. Of equal ones the lower index
// comes first; a NaN is larger than all else, as in PyTorch. The gradient goes where the entries came from, and keeps
// only the indices.
//
// The chosen indices are a heap within the output, with the one that ranks last at its root: a row of n takes about
// n + k log(k) log(n / k) steps if it is in no sequence, and n log(k) at most.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
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
#include "ops/math/along_axis_cuda.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::top_k {
namespace {

constexpr int64_t kChunk = 1 << 14;  // the fewest elements in a piece of work
constexpr int32_t kBlock = 64;       // so many entries are passed over at once

absl::Status Infer(InferContext& c) {
  const auto& options = c.options<proto::LargestK>();
  SNUG_ASSIGN_OR_RETURN(const int axis, NumberedAxis(c, options.axis()));
  const int64_t width = c.shape(0)[axis];
  if (options.k() < 1 || options.k() > width) {
    return c.OptionError(
        "k", absl::StrCat("expected 1 to ", width, " (the entries of axis ", axis, "), found ", options.k()));
  }
  const Shape y = c.shape(0).WithDim(axis, options.k());
  c.SetOutput(0, c.input(0).dtype, y);
  c.SetOutput(1, DType::kInt32, y);
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  const auto& options = c.options<proto::LargestKGrad>();
  SNUG_ASSIGN_OR_RETURN(const int axis, NumberedAxis(c, options.top_k().axis()));
  SNUG_RETURN_IF_ERROR(c.CheckShape(0, c.shape(0).WithDim(axis, options.top_k().k())));
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, c.shape(0)));
  c.SetOutput(0, c.input(1).dtype, c.shape(0).WithDim(axis, options.width()));
  return absl::OkStatus();
}

AlongAxis View(const KernelContext& k) {
  const Shape& x = k.input_type(0).shape;
  return {x, *NormalizeAxis(k.options<proto::LargestK>().axis(), x.rank())};  // inference has checked it
}
AlongAxis GradView(const KernelContext& k) {
  const Shape& dx = k.output_type(0).shape;
  return {dx, *NormalizeAxis(k.options<proto::LargestKGrad>().top_k().axis(), dx.rank())};
}

absl::Status Gradient(GradContext& g) {
  const auto& options = g.options<proto::LargestK>();
  const Shape& x = g.input_type(0).shape;
  proto::LargestKGrad back;
  *back.mutable_top_k() = options;
  back.set_width(x[*NormalizeAxis(options.axis(), x.rank())]);
  g.SetInputGrad(0, g.Op("top_k_grad", {g.output(1), g.output_grad(0)}, proto::MakeOptions(back)));
  return g.status();
}

Cost CostOfGrad(const NodeTypes&) { return {}; }

// Indices of entries of one row, as a heap whose root ranks last. Entries of the row, and those of the heap, lie
// `stride` apart.
template <class T>
class Heap {
 public:
  using A = Accumulator<T>;
  SNUG_INLINE Heap(const T* row, int64_t stride, int32_t* indices) : row_(row), stride_(stride), indices_(indices) {}

  SNUG_INLINE A Entry(int32_t i) const { return static_cast<A>(row_[i * stride_]); }
  SNUG_INLINE int32_t& At(int64_t position) const { return indices_[position * stride_]; }

  // Says whether entry i ranks before entry j.
  SNUG_INLINE bool Before(int32_t i, int32_t j) const {
    const A a = Entry(i);
    const A b = Entry(j);
    if (a > b || a < b) return a > b;
    return a == b || (a != a && b != b) ? i < j : a != a;
  }
  // Lets what is at the position sink below all that rank after it.
  SNUG_INLINE void Sink(int64_t size, int64_t position) const {
    const int32_t own = At(position);
    for (int64_t child = 2 * position + 1; child < size; child = 2 * position + 1) {
      if (child + 1 < size && Before(At(child), At(child + 1))) ++child;
      if (!Before(own, At(child))) break;
      At(position) = At(child);
      position = child;
    }
    At(position) = own;
  }

 private:
  const T* row_;
  int64_t stride_;
  int32_t* indices_;
};

template <class T>
SNUG_INLINE void TakeLargest(int32_t n, int32_t most, int64_t stride, const T* x, T* values, int32_t* indices) {
  const Heap<T> heap(x, stride, indices);
  for (int32_t i = 0; i < most; ++i) heap.At(i) = i;
  for (int64_t i = most / 2; i-- > 0;) heap.Sink(most, i);
  for (int32_t i = most; i < n;) {
    if (stride == 1 && i + kBlock <= n) {
      const Accumulator<T> least = heap.Entry(heap.At(0));
      int32_t larger = 0;
      for (int32_t j = 0; j < kBlock; ++j) larger += !(heap.Entry(i + j) <= least) ? 1 : 0;
      if (larger == 0) {
        i += kBlock;
        continue;
      }
    }
    for (const int32_t end = std::min(n, i + kBlock); i < end; ++i) {
      if (!heap.Before(i, heap.At(0))) continue;
      heap.At(0) = i;
      heap.Sink(most, 0);
    }
  }
  for (int64_t size = most - 1; size > 0; --size) {
    std::swap(heap.At(0), heap.At(size));
    heap.Sink(size, 0);
  }
  for (int32_t i = 0; i < most; ++i) values[i * stride] = x[heap.At(i) * stride];
}

template <class T>
void Take(int threads, const AlongAxis& view, int64_t most, const T* x, T* values, int32_t* indices) {
  const int64_t n = view.width;
  const int64_t inner = view.inner;
  ParallelFor(threads, view.outer * inner, std::max<int64_t>(1, kChunk / n), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t to = row / inner * most * inner + row % inner;
        TakeLargest(static_cast<int32_t>(n), static_cast<int32_t>(most), inner,
                    x + row / inner * n * inner + row % inner, values + to, indices + to);
      }
    });
  });
}

absl::Status Forward(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Take(k.threads(), View(k), k.options<proto::LargestK>().k(), k.input<T>(0), k.output<T>(0), k.output<int32_t>(1));
    return absl::OkStatus();
  });
}

// No two elements of dy go to the same of dx.
template <class T>
void Scatter(int threads, const AlongAxis& view, int64_t most, const int32_t* indices, const T* dy, T* dx) {
  const int64_t n = view.width;
  const int64_t inner = view.inner;
  ParallelFor(threads, view.outer, std::max<int64_t>(1, kChunk / (n * inner)), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA { std::fill(dx + begin * n * inner, dx + end * n * inner, T{}); });
    for (int64_t i = begin * most * inner; i < end * most * inner; ++i) {
      dx[(i / (most * inner) * n + indices[i]) * inner + i % inner] = dy[i];
    }
  });
}

absl::Status Backward(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Scatter(k.threads(), GradView(k), k.options<proto::LargestKGrad>().top_k().k(), k.input<int32_t>(0), k.input<T>(1),
            k.output<T>(0));
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::LargestK>;
  s.Case("rows").Input({5, 7}).Distinct().With(options("k: 3"));
  s.Case("wide").Input({3, 1300}).NoGradient().With(options("k: 10"));
  s.Case("half").Input({2, 150}).Distinct().With(options("k: 75"));
  s.Case("all").Input({4, 37}).Distinct().With(options("k: 37"));
  s.Case("channels").Input({2, 5, 3, 7}).Distinct().With(options("k: 2 axis: 1"));
  s.Case("middle").Input({3, 9, 3}).Distinct().With(options("k: 4 axis: -2"));
  s.Case("batch").Input({9, 5}).Distinct().With(options("k: 1 axis: 0"));
  s.Case("one").Input({4, 1, 3}).With(options("k: 1 axis: 1"));
  s.Case("known")
      .Input({2, 4})
      .Values({1, 4, 2, 3, 8, 5, 7, 6})
      .With(options("k: 2"))
      .Expect(0, {4, 3, 8, 7})
      .Expect(1, {1, 3, 0, 2});
  s.Case("ties")
      .Input({2, 4})
      .Values({1, 2, 2, 2, 3, 3, 3, 3})
      .NoGradient()
      .With(options("k: 3"))
      .Expect(0, {2, 2, 2, 3, 3, 3})
      .Expect(1, {1, 2, 3, 0, 1, 2});
  s.Case("not_a_number")
      .Input({1, 6})
      .Values({1, NAN, INFINITY, -INFINITY, NAN, 2})
      .NoGradient()
      .With(options("k: 6"))
      .Expect(1, {1, 4, 2, 5, 0, 3});
  s.Case("equal_infinities")
      .Input({1, 3})
      .Values({-INFINITY, -INFINITY, -INFINITY})
      .NoGradient()
      .With(options("k: 2"))
      .Expect(1, {0, 1});
  std::vector<double> rising(200);
  for (size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<double>(i);
  s.Case("rising").Input({1, 200}).Values(rising).With(options("k: 3")).Expect(1, {199, 198, 197});
  s.Case("no_k").Input({3, 4}).Fails("option \"k\": expected 1 to 4 (the entries of axis 1), found 0");
  s.Case("large_k").Input({3, 4}).With(options("k: 4 axis: 0")).Fails("expected 1 to 3");
  s.Case("bad_axis").Input({3, 4}).With(options("k: 1 axis: 2")).Fails("axis 2: expected between -2 and 1");
  s.Case("batch_by_accident").Input({3}).With(options("k: 1")).Fails("axis -1 is the batch");
}

void GradSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::LargestKGrad>;
  s.Case("known")
      .Int({2, 2}, 0, 4)
      .Values({3, 1, 0, 2})
      .Input({2, 2})
      .Values({5, 6, 7, 8})
      .With(options("top_k { k: 2 } width: 4"))
      .Expect(0, {0, 6, 0, 5, 7, 0, 8, 0});
  s.Case("columns")
      .Int({1, 2, 3}, 0, 3)
      .Values({0, 1, 2, 2, 0, 1})
      .Input({1, 2, 3})
      .Values({1, 2, 3, 4, 5, 6})
      .With(options("top_k { k: 2 axis: 1 } width: 3"))
      .Expect(0, {1, 5, 0, 0, 2, 6, 4, 0, 3});
  s.Case("wrong_gradient")
      .Int({2, 2}, 0, 4)
      .Input({2, 3})
      .With(options("top_k { k: 2 } width: 4"))
      .Fails("expected shape [2, 2]");
}

}  // namespace

SNUG_OPS(top_k) {
  return {{.name = "top_k",
           .doc = "values = the `k` largest of x along `axis`, the largest first; indices = where they are",
           .inputs = {{"x"}},
           .outputs = {{"values"}, {"indices", PortType::kInteger}},
           .infer = Infer,
           .gradient = Gradient,
           .cost = FlopsPerElement<1>,
           .kernels = {Plain(Forward), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         return TopKEntriesCuda(k, View(k), k.options<proto::LargestK>().k());
                       }))},
           .samples = Samples},
          {.name = "top_k_grad",
           .doc = "dx = dvalues where the entries came from, 0 elsewhere",
           .inputs = {{"indices", PortType::kInteger}, {"dvalues"}},
           .outputs = {{"dx"}},
           .infer = InferGrad,
           .cost = CostOfGrad,
           .kernels = {Plain(Backward), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         return TopKEntriesGradCuda(k, GradView(k), k.options<proto::LargestKGrad>().top_k().k());
                       }))},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::top_k
