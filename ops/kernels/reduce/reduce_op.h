// Makes the op of a reduction of the model file: y = factor * (x reduced along `axis`).
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <type_traits>

#include "ops/kernel_context.h"
#include "ops/kernels/reduce/cuda.h"
#include "ops/kernels/reduce/options.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kit/costs.h"
#include "ops/kit/dispatch.h"
#include "ops/op_def.h"

namespace snug::core {

// What the factor is, of the types of x and y.
using ReduceFactor = double (*)(const ValueType& x, const ValueType& y);

inline double NoFactor(const ValueType& /*x*/, const ValueType& /*y*/) { return 1; }

// `Combine` is SumOp or MaxOp.
template <class Combine, ReduceFactor kFactor>
FusedReduction FusedReductionOf(const NodeTypes& types) {
  return {.plan = PlanReduceNode(types),
          .factor = kFactor(types.input(0), types.output(0)),
          .largest = std::is_same_v<Combine, MaxOp>};
}

template <class Combine, ReduceFactor kFactor>
absl::Status RunReduction(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Reduce<Combine>(k.threads(), PlanReduceNode(k.types()), k.input<T>(0), k.output<T>(0),
                    kFactor(k.input_type(0), k.output_type(0)));
    return absl::OkStatus();
  });
}

template <class Combine, ReduceFactor kFactor = NoFactor>
OpDef ReduceOp(absl::string_view name, absl::string_view doc, GradientFn gradient, SamplesFn samples) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x"}},
          .outputs = {{"y"}},
          .infer = InferReduce,
          .gradient = gradient,
          .traits = {.layout = LayoutRule::kAgnostic},
          .cost = FlopsPerElement<1>,
          .reduction = FusedReductionOf<Combine, kFactor>,
          .kernels = {Plain(RunReduction<Combine, kFactor>),
                      {.device = kOnCuda,
                       .name = "own",
                       .prepare = SNUG_IF_CUDA(PrepareReduceNodeCuda),
                       .run = SNUG_IF_CUDA([](const KernelContext& k) {
                         return ReduceCuda<Combine>(k, PlanReduceNode(k.types()),
                                                    kFactor(k.input_type(0), k.output_type(0)));
                       })}},
          .samples = samples};
}

}  // namespace snug::core
