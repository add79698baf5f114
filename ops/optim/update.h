// What the optimizers' update ops share: ports, checks, and the loop over a parameter, its slots and its gradient.
//
// The parameter and its slots are float32 also in a bfloat16 network; the gradient may have either precision then. Or
// they are bfloat16, with nothing wider beside them: an update computes in float and rounds what it keeps
// stochastically (rounding.h). The random state {seed, step} that this needs is the port "state" of the ops that count
// steps, and "rounding" of the others, which comes last and is absent otherwise.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <array>
#include <cstdint>
#include <type_traits>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/isa.h"
#include "ops/kit/random_state.h"
#include "ops/op_def.h"
#include "ops/optim/rounding.h"

namespace snug::core {

// The last port of an op whose own ports have no random state.
inline constexpr Port kRoundingPort = {.name = "rounding", .type = PortType::kInteger, .optional = true};

// The type that an update of such a parameter computes in, and that of its learning rate.
inline DType ComputedIn(DType parameter) { return parameter == DType::kBFloat16 ? DType::kFloat32 : parameter; }

// Checks that an update whose ports before "rounding" are `ports` has it where the parameter is bfloat16.
inline absl::Status CheckRounding(const InferContext& c, int ports) {
  if (c.num_inputs() > ports && c.has_input(ports)) return CheckRandomState(c, ports);
  if (c.input(0).dtype != DType::kBFloat16) return absl::OkStatus();
  return c.InputError(0, absl::StrCat("is bfloat16, which is rounded stochastically: expected input ", ports,
                                      " \"rounding\", found none"));
}

// Checks the inputs: the parameter, then `slots` of its type, the gradient, lr, the state of steps if the op counts
// them, the gate, and "rounding" if it does not.
inline absl::Status CheckUpdate(const InferContext& c, int slots, bool counts = false) {
  const DType parameter = c.input(0).dtype;
  for (int i = 1; i <= slots + 1; ++i) {
    SNUG_RETURN_IF_ERROR(c.CheckShape(i, c.shape(0)));
    const DType found = c.input(i).dtype;
    const bool gradient = i == slots + 1;
    if (found == parameter || (gradient && parameter == DType::kFloat32 && found == DType::kBFloat16) ||
        (gradient && parameter == DType::kBFloat16 && found == DType::kFloat32)) {
      continue;
    }
    return c.InputError(i, absl::StrCat("expected ", Name(parameter), " like the parameter, found ", Name(found)));
  }
  SNUG_RETURN_IF_ERROR(c.CheckShape(slots + 2, Shape()));  // lr
  if (counts) SNUG_RETURN_IF_ERROR(CheckRandomState(c, slots + 3));
  const int gate = slots + 3 + (counts ? 1 : 0);
  SNUG_RETURN_IF_ERROR(c.CheckShape(gate, Shape()));
  return counts ? absl::OkStatus() : CheckRounding(c, gate + 1);
}

// Returns where the gate is: the last input, or the one before "rounding".
inline int GateInput(const KernelContext& k) {
  const int last = k.num_inputs() - 1;
  return k.input_type(last).dtype == DType::kUint8 ? last : last - 1;
}
// Says whether the step is good. If not, its loss is not finite, and no Variable may change.
inline bool GateIsOpen(const KernelContext& k) { return *k.input<uint8_t>(GateInput(k)) != 0; }

// Returns the random state, which is the input beside the gate; null where there is none.
inline const int64_t* UpdateState(const KernelContext& k) {
  const int gate = GateInput(k);
  const int state = gate + 1 < k.num_inputs() ? gate + 1 : gate - 1;
  return k.input_type(state).dtype == DType::kInt64 ? k.input<int64_t>(state) : nullptr;
}

// Calls fn(zero of the parameter's type, zero of the gradient's type) for parameters that are never bfloat16.
template <class Fn>
absl::Status DispatchUpdate(DType parameter, DType gradient, Fn&& fn) {
  if (parameter == DType::kFloat64) return fn(double{}, double{});
  if (gradient == DType::kBFloat16) return fn(float{}, BFloat16{});
  return fn(float{}, float{});
}

// The same for all.
template <class Fn>
absl::Status DispatchKept(DType parameter, DType gradient, Fn&& fn) {
  if (parameter != DType::kBFloat16) return DispatchUpdate(parameter, gradient, fn);
  if (gradient == DType::kBFloat16) return fn(BFloat16{}, BFloat16{});
  return fn(BFloat16{}, float{});
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

// Calls fn(i, numbers...) for every element i. The numbers are references to what the Variables of the inputs [first,
// first + kCount) hold for it, of type P, in the type that an update computes in.
template <int kCount, class P, class Fn>
void UpdateVariables(const KernelContext& k, int first, Fn fn) {
  const int64_t n = k.input_type(0).num_elements();
  std::array<P*, kCount> kept;
  for (int i = 0; i < kCount; ++i) kept[static_cast<size_t>(i)] = k.variable<P>(first + i);
  if constexpr (std::is_same_v<P, BFloat16>) {
    UpdateRounded(k.threads(), n, UpdateState(k), RoundingId(k.random_id()), kept, fn);
  } else {
    ForEachElement(k.threads(), n, [=](int64_t i) SNUG_LAMBDA {
      if constexpr (kCount == 1) fn(i, kept[0][i]);
      if constexpr (kCount == 2) fn(i, kept[0][i], kept[1][i]);
      if constexpr (kCount == 3) fn(i, kept[0][i], kept[1][i], kept[2][i]);
    });
  }
}

}  // namespace snug::core
