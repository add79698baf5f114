// Ops that compute each element of their one output from one element of each input: the loops, and the table entries.
//
// Such an op is a function object and a few words:
//
//   struct Relu {  // a NaN stays one
//     template <class A> A operator()(A x) const { return x < A(0) ? A(0) : x; }
//   };  // those of the library: ops/math/functions.h
//   SNUG_OPS(relu) {
//     return {Elementwise<Relu>({.name = "relu", .doc = "y = max(x, 0)", .inputs = {{"x"}}, .outputs = {{"y"}},
//                                .gradient = Gradient, .samples = Samples}), ...};
//   }
//
// The function works in float (for float32 and bfloat16) or double. It is compiled into vector loops, so it may only
// have branches that the compiler can turn into selects. If it has options, `make` builds it from the node's. Functions
// that stand in SNUG_FUNCTIONS (ops/math/functions.h) have CUDA kernels and may be fused.
#pragma once

#include <absl/status/status.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/parallel.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/broadcast.h"
#include "ops/kit/convert.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/expression.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"
#include "ops/math/functions.h"
#include "ops/math/values_cuda.h"
#include "ops/op_def.h"

namespace snug::core {

inline constexpr int64_t kElementwiseChunk = 1 << 15;  // elements in a thread's piece of work
inline constexpr int64_t kElementwiseBlock = 512;      // elements in a buffer on the stack

// Says whether F only chooses among its operands, their negatives and small whole numbers, which need no rounding to
// the operands' type then. Such a function has a member kChooses.
template <class F>
concept Choosing = F::kChooses;

// Sets y[i] = f(x[i]...). y may be any of the x. f is taken by value, so that the compiler knows its options not to
// change in the loop.
template <Isa kIsa, class F, class T, class... X>
SNUG_INLINE void MapBlock(IsaConstant<kIsa> isa, int64_t n, const F f, T* y, const X*... x) {
  if constexpr (Choosing<F> && (std::is_same_v<X, T> && ...)) {
    SNUG_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = Exactly<T>(f(static_cast<Accumulator<X>>(x[i])...));
  } else {
    FillRow(isa, n, y, [=](int64_t i) SNUG_LAMBDA { return f(static_cast<Accumulator<X>>(x[i])...); });
  }
}

template <class F, class T, class... X>
void Map(int threads, int64_t n, const F& f, T* y, const X*... x) {
  ParallelFor(threads, n, kElementwiseChunk, [=](int64_t begin, int64_t end) {
    WithIsa([=](auto isa) SNUG_LAMBDA { MapBlock(isa, end - begin, f, y + begin, (x + begin)...); });
  });
}

// Does the same with broadcasting: views[j] says how x[j] lies under y.
template <class F, class T, class... X>
void BroadcastMap(int threads, int64_t n, const std::array<BroadcastView, sizeof...(X)>& views, const F& f, T* y,
                  const X*... x) {
  bool contiguous = true;
  for (const BroadcastView& view : views) contiguous = contiguous && view.contiguous();
  if (contiguous) return Map(threads, n, f, y, x...);
  ParallelFor(threads, n, kElementwiseChunk, [=, &views](int64_t begin, int64_t end) {
    WithIsa([=, &views](auto isa) SNUG_LAMBDA {
      std::tuple<std::array<X, kElementwiseBlock>...> buffers;
      for (int64_t i = begin; i < end; i += kElementwiseBlock) {
        const int64_t count = std::min(kElementwiseBlock, end - i);
        [&]<size_t... J>(std::index_sequence<J...>) SNUG_LAMBDA {
          MapBlock(isa, count, f, y + i, views[J].Read(x, i, count, std::get<J>(buffers).data())...);
        }
        (std::index_sequence_for<X...>());
      }
    });
  });
}

namespace internal {

template <class F>
F WithoutOptions(const Options&) {
  return F();
}

// What SNUG_FUNCTIONS says of F. Only functions in that list have one.
template <class F>
struct FunctionRow;
#define SNUG_FUNCTION_ROW(F, ...)                                                                        \
  template <>                                                                                            \
  struct FunctionRow<functions::F> {                                                                     \
    static constexpr absl::string_view kName = #F;                                                       \
    static std::vector<double> Numbers([[maybe_unused]] const functions::F& f) { return {__VA_ARGS__}; } \
  };
SNUG_FUNCTIONS(SNUG_FUNCTION_ROW)
#undef SNUG_FUNCTION_ROW

// Inputs of the same shape have the same layout, so the output takes the first one's.
template <int kInputs>
absl::Status InferSameShape(InferContext& c) {
  for (int i = 1; i < kInputs; ++i) SNUG_RETURN_IF_ERROR(c.CheckShape(i, c.shape(0)));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

// Inputs of the output's rank have the same layout; those of lower rank are plain.
template <int kInputs>
absl::Status InferBroadcast(InferContext& c) {
  ValueType type = c.input(0);
  for (int i = 1; i < kInputs; ++i) {
    if (c.shape(i).rank() > type.shape.rank()) type.layout = c.input(i).layout;
    const absl::StatusOr<Shape> shape = BroadcastShapes(type.shape, c.shape(i));
    if (!shape.ok()) return c.InputError(i, shape.status().message());
    type.shape = *shape;
  }
  c.SetOutput(0, type);
  return absl::OkStatus();
}

OpDef CompleteElementwise(OpDef op, InferFn infer, ElementwiseForm form, KernelFn plain, KernelFn cuda);

}  // namespace internal

template <class F, F (*make)(const Options&) = internal::WithoutOptions<F>>
absl::Status ElementwiseKernel(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    [&]<size_t... J>(std::index_sequence<J...>) {
      Map(k.threads(), k.output_type(0).num_elements(), make(k.types().options), k.output<T>(0), k.input<T>(J)...);
    }
    (std::make_index_sequence<kArity<F>>());
    return absl::OkStatus();
  });
}

template <class F, F (*make)(const Options&) = internal::WithoutOptions<F>>
absl::Status BroadcastKernel(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    [&]<size_t... J>(std::index_sequence<J...>) {
      const std::array<BroadcastView, kArity<F>> views = {BroadcastView(k.input_type(J), k.output_type(0))...};
      BroadcastMap(k.threads(), k.output_type(0).num_elements(), views, make(k.types().options), k.output<T>(0),
                   k.input<T>(J)...);
    }
    (std::make_index_sequence<kArity<F>>());
    return absl::OkStatus();
  });
}

template <class F, F (*make)(const Options&) = internal::WithoutOptions<F>>
absl::Status ElementwiseCuda(const KernelContext& k) {
  return ElementwiseOnCuda<F>(k, make(k.types().options));
}

// This is what ElementwiseForm::expression calls.
template <class F, F (*make)(const Options&) = internal::WithoutOptions<F>>
std::string FunctionExpression(const NodeTypes& types, absl::string_view operands) {
  using Listed = internal::FunctionRow<F>;
  return ApplyExpression(Listed::kName, Listed::Numbers(make(types.options)), types, operands);
}

namespace internal {

template <class F>
inline constexpr bool kInList = requires {
  FunctionRow<F>::kName;
};

template <class F, F (*make)(const Options&)>
KernelFn CudaKernelOf() {
  if constexpr (kInList<F>) return SNUG_IF_CUDA((ElementwiseCuda<F, make>));
  return nullptr;
}

template <class F, F (*make)(const Options&)>
ElementwiseForm FormOf() {
  if constexpr (kInList<F>) return {FunctionExpression<F, make>};
  return {};
}

}  // namespace internal

// Adds what all such ops have in common: inference and kernels, unless they are given, layouts, and the permission to
// write the output over any input.
template <class F, F (*make)(const Options&) = internal::WithoutOptions<F>>
OpDef Elementwise(OpDef op) {  // NOLINT(performance-unnecessary-value-param): moved on below
  return internal::CompleteElementwise(std::move(op), internal::InferSameShape<kArity<F>>, internal::FormOf<F, make>(),
                                       ElementwiseKernel<F, make>, internal::CudaKernelOf<F, make>());
}
template <class F, F (*make)(const Options&) = internal::WithoutOptions<F>>
OpDef Broadcasting(OpDef op) {  // NOLINT(performance-unnecessary-value-param): moved on below
  return internal::CompleteElementwise(std::move(op), internal::InferBroadcast<kArity<F>>, internal::FormOf<F, make>(),
                                       BroadcastKernel<F, make>, internal::CudaKernelOf<F, make>());
}

// Returns `value` summed over the axes along which `shape` was broadcast to it, or `value` itself if there are none.
ValueId SumToShape(GradContext& g, ValueId value, const Shape& shape);

}  // namespace snug::core
