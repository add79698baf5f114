// Chooses the instruction set at run time, so that one binary serves all: WithIsa(body) runs `body` compiled for the
// best level that this machine has. The body is an inline lambda over raw pointers; the compiler inlines it into each
// level's function and vectorises it there. Keep bodies to loops (no calls into other translation units). A body that
// takes an argument is told the level, as a type: `[&](auto isa) SNUG_LAMBDA { Tile<isa()> ... }`, for loops whose
// best shape depends on how many registers there are and how wide they are.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "engine/base/host_device.h"

namespace snug::core {

enum class Isa : uint8_t { kBaseline, kAvx2, kAvx512 };

// Returns what the machine has, lowered by the environment variable SNUG_ISA=baseline|avx2|avx512 (for tests). It is
// read once.
Isa CurrentIsa();
const char* Name(Isa isa);
std::optional<Isa> IsaCalled(const char* name);

#define SNUG_INLINE SNUG_HOST_DEVICE __attribute__((always_inline)) inline
// Marks lambdas that are handed to WithIsa: `[&]() SNUG_LAMBDA { ... }`.
#define SNUG_LAMBDA __attribute__((always_inline))

// Stands before a loop whose iterations are independent of each other, also where the output lies on an input's bytes
// (in place). The compiler then vectorises without a test for overlap, which in-place calls would fail.
#if defined(__clang__)
#define SNUG_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define SNUG_INDEPENDENT _Pragma("GCC ivdep")
#endif

template <Isa kIsa>
using IsaConstant = std::integral_constant<Isa, kIsa>;

namespace internal {

template <Isa kIsa, class Body>
SNUG_INLINE void CallBody(Body& body) {
  if constexpr (std::is_invocable_v<Body&, IsaConstant<kIsa>>) {
    body(IsaConstant<kIsa>());
  } else {
    body();
  }
}

#if defined(__x86_64__)
#if defined(__clang__)
#define SNUG_TARGET_AVX512 "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi,bmi2"
#else
#define SNUG_TARGET_AVX512 "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi,bmi2,prefer-vector-width=512"
#endif
template <class Body>
__attribute__((target(SNUG_TARGET_AVX512), flatten, noinline)) void CallAvx512(Body& body) {
  CallBody<Isa::kAvx512>(body);
}
template <class Body>
__attribute__((target("avx2,fma,bmi,bmi2"), flatten, noinline)) void CallAvx2(Body& body) {
  CallBody<Isa::kAvx2>(body);
}
#endif
}  // namespace internal

template <class Body>
void WithIsa(Body&& body) {
#if defined(__x86_64__)
  switch (CurrentIsa()) {
    case Isa::kAvx512:
      return internal::CallAvx512(body);
    case Isa::kAvx2:
      return internal::CallAvx2(body);
    case Isa::kBaseline:
      break;
  }
#endif
  internal::CallBody<Isa::kBaseline>(body);
}

}  // namespace snug::core
