// What the optimizers' update ops share: ports, checks, and the loop over a parameter, its slots and its gradient.
//
// The parameter and its slots are float32 also in a bfloat16 network; the gradient may have either precision then. Or
// one or both are narrower, with nothing wider beside them: the parameter bfloat16, the slots bfloat16 or uint8, which
// are 8 bits for each number and the scales of its blocks (ops/kernels/update/narrow_numbers.h). An update computes in
// float then and rounds what it keeps stochastically (rounding.h). The random state {seed, step} that this needs is the
// port "state" of the ops that count steps, and "rounding" of the others, which comes last and is absent otherwise.
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
#include "ops/kept_types.h"
#include "ops/kernel_context.h"
#include "ops/kernels/update/narrow_numbers.h"
#include "ops/kit/isa.h"
#include "ops/kit/random_state.h"
#include "ops/op_def.h"
#include "ops/optim/rounding.h"

namespace snug::core {

// The last port of an op whose own ports have no random state.
inline constexpr Port kRoundingPort = {.name = "rounding", .type = PortType::kInteger, .optional = true};

// Checks that an update whose ports before "rounding" are `ports`, the first `kept` of which it changes, has it where
// one of those is narrow.
inline absl::Status CheckRounding(const InferContext& c, int kept, int ports) {
  if (c.num_inputs() > ports && c.has_input(ports)) return CheckRandomState(c, ports);
  for (int i = 0; i < kept; ++i) {
    if (!IsNarrow(c.input(i).dtype)) continue;
    return c.InputError(
        i, absl::StrCat("is ", Name(c.input(i).dtype), ", which is rounded stochastically: expected input ", ports,
                        " \"rounding\", found none"));
  }
  return absl::OkStatus();
}

inline absl::Status CheckParameter(const InferContext& c) {
  if (IsFloating(c.input(0).dtype)) return absl::OkStatus();
  return c.InputError(0, absl::StrCat("expected a floating-point type, found ", Name(c.input(0).dtype)));
}

inline absl::Status CheckSlot(const InferContext& c, int i) {
  const DType parameter = c.input(0).dtype;
  const DType found = c.input(i).dtype;
  const bool narrows = parameter != DType::kFloat64;
  if (found == DType::kUint8 && narrows) return c.CheckShape(i, {CodedBytes(c.shape(0).num_elements())});
  SNUG_RETURN_IF_ERROR(c.CheckShape(i, c.shape(0)));
  if (found == parameter || (narrows && (found == DType::kFloat32 || found == DType::kBFloat16))) {
    return absl::OkStatus();
  }
  return c.InputError(i, absl::StrCat("expected ", Name(parameter), narrows ? ", or narrower than the parameter" : "",
                                      ", found ", Name(found)));
}

// Checks the inputs: the parameter, then its `slots`, the gradient, lr, the state of steps if the op counts
// them, the gate, and "rounding" if it does not.
inline absl::Status CheckUpdate(const InferContext& c, int slots, bool counts = false) {
  const DType parameter = c.input(0).dtype;
  SNUG_RETURN_IF_ERROR(CheckParameter(c));
  for (int i = 1; i <= slots; ++i) SNUG_RETURN_IF_ERROR(CheckSlot(c, i));
  const int gradient = slots + 1;
  SNUG_RETURN_IF_ERROR(c.CheckShape(gradient, c.shape(0)));
  if (const DType found = c.input(gradient).dtype;
      found != parameter && (found == DType::kFloat64 || parameter == DType::kFloat64)) {
    return c.InputError(gradient,
                        absl::StrCat("expected ", Name(parameter), " like the parameter, found ", Name(found)));
  }
  SNUG_RETURN_IF_ERROR(c.CheckShape(slots + 2, Shape()));  // lr
  if (counts) SNUG_RETURN_IF_ERROR(CheckRandomState(c, slots + 3));
  const int gate = slots + 3 + (counts ? 1 : 0);
  SNUG_RETURN_IF_ERROR(c.CheckShape(gate, Shape()));
  return counts ? absl::OkStatus() : CheckRounding(c, slots + 1, gate + 1);
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

// Stands for the types of a parameter and its slots where one of them is narrow: which, an update asks as it runs.
struct Narrow {};
template <>
struct AccumulatorOf<Narrow> {
  using type = float;
};

// Calls fn(zero of the parameter's type, zero of the gradient's type) for parameters that are never narrow, nor their
// slots.
template <class Fn>
absl::Status DispatchUpdate(DType parameter, DType gradient, Fn&& fn) {
  if (parameter == DType::kFloat64) return fn(double{}, double{});
  if (gradient == DType::kBFloat16) return fn(float{}, BFloat16{});
  return fn(float{}, float{});
}

// The same for all, whose inputs begin with the parameter, its `slots` and the gradient: the first is Narrow if need
// be.
template <class Fn>
absl::Status DispatchKept(const KernelContext& k, int slots, Fn&& fn) {
  bool narrow = false;
  for (int i = 0; i <= slots; ++i) narrow = narrow || IsNarrow(k.input_type(i).dtype);
  const DType gradient = k.input_type(slots + 1).dtype;
  if (!narrow) return DispatchUpdate(k.input_type(0).dtype, gradient, fn);
  if (gradient == DType::kBFloat16) return fn(Narrow{}, BFloat16{});
  return fn(Narrow{}, float{});
}

inline KeptAs KeptAsOf(DType dtype, bool squares) {
  if (dtype == DType::kUint8) return squares ? KeptAs::kSquares8 : KeptAs::kSigned8;
  return dtype == DType::kBFloat16 ? KeptAs::kBFloat16 : KeptAs::kFloat32;
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
// first + kCount) hold for it, in the type that an update computes in. P is their type, or Narrow. Bit i of `squares`
// says that input i holds sums or means of squares. What is narrow is written only if it `writes`; fn sees to the rest.
template <int kCount, class P, class Fn>
void UpdateVariables(const KernelContext& k, int first, unsigned squares, Fn fn, bool writes = true) {
  const int64_t n = k.input_type(0).num_elements();
  if constexpr (std::is_same_v<P, Narrow>) {
    std::array<KeptNumbers, kCount> kept;
    for (int i = 0; i < kCount; ++i) {
      const bool of_squares = (squares >> (first + i) & 1) != 0;
      kept[static_cast<size_t>(i)] = {KeptAsOf(k.input_type(first + i).dtype, of_squares), k.variable<void>(first + i),
                                      n};
    }
    UpdateRounded(k.threads(), n, UpdateState(k), RoundingId(k.random_id()), kept, fn, writes);
  } else {
    std::array<P*, kCount> kept;
    for (int i = 0; i < kCount; ++i) kept[static_cast<size_t>(i)] = k.variable<P>(first + i);
    ForEachElement(k.threads(), n, [=](int64_t i) SNUG_LAMBDA {
      if constexpr (kCount == 1) fn(i, kept[0][i]);
      if constexpr (kCount == 2) fn(i, kept[0][i], kept[1][i]);
      if constexpr (kCount == 3) fn(i, kept[0][i], kept[1][i], kept[2][i]);
    });
  }
}

}  // namespace snug::core
