// The operations by which reductions combine numbers. NVRTC reads this too.
#pragma once

#include <limits>

#include "ops/kit/isa.h"

namespace snug::core {

struct SumOp {
  template <class A>
  static constexpr A kIdentity = A(0);
  template <class A>
  static SNUG_INLINE A Combine(A a, A b) {
    return a + b;
  }
};

struct MaxOp {  // NaN wins, as in PyTorch. There are two selects, because the compiler turns `||` into a branch.
  template <class A>
  static constexpr A kIdentity = -std::numeric_limits<A>::infinity();
  template <class A>
  static SNUG_INLINE A Combine(A a, A b) {
    const A larger = b > a ? b : a;
    return b != b ? b : larger;
  }
};

}  // namespace snug::core
