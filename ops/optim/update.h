// What the optimizers' update ops share: ports, checks, and the loop over parameter and gradient.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <cstdint>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/isa.h"

namespace snug::core {

// Checks the inputs: the parameter, then `slots` of its type, the gradient, lr, `others` ports of the op's own, and the
// gate. Parameters and slots are float32 also in a bfloat16 network; the gradient may have either precision.
inline absl::Status CheckUpdate(InferContext& c, int slots, int others = 0) {
  const DType parameter = c.input(0).dtype;
  for (int i = 1; i <= slots + 1; ++i) {
    SNUG_RETURN_IF_ERROR(c.CheckShape(i, c.shape(0)));
    const DType found = c.input(i).dtype;
    const bool gradient = i == slots + 1;
    if (found == parameter || (gradient && parameter == DType::kFloat32 && found == DType::kBFloat16)) continue;
    return c.InputError(i, absl::StrCat("expected ", Name(parameter), " like the parameter, found ", Name(found)));
  }
  SNUG_RETURN_IF_ERROR(c.CheckShape(slots + 2, Shape()));  // lr
  return c.CheckShape(slots + 3 + others, Shape());        // gate
}

// Says whether the step is good. If not, its loss is not finite, and no Variable may change.
inline bool GateIsOpen(const KernelContext& k) { return *k.input<uint8_t>(k.num_inputs() - 1) != 0; }

// Calls fn(zero of the parameter's type, zero of the gradient's type).
template <class Fn>
absl::Status DispatchUpdate(DType parameter, DType gradient, Fn&& fn) {
  if (parameter == DType::kFloat64) return fn(double{}, double{});
  if (gradient == DType::kBFloat16) return fn(float{}, BFloat16{});
  return fn(float{}, float{});
}

// Calls element(i) for every i in [0, n), vectorised. It may touch only index i, and the arrays may not overlap.
template <class Element>
void ForEachElement(int threads, int64_t n, Element element) {
  constexpr int64_t kChunk = 1 << 13;  // elements: 100 KB of parameter, slot and gradient, which take some microseconds
  ParallelFor(threads, n, kChunk, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      SNUG_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) element(i);
    });
  });
}

}  // namespace snug::core
