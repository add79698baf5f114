// Loads and stores of vectors of floats whose storage is float or BFloat16, and of whole rows. What a BFloat16 is and
// how numbers are rounded to it is as in engine/base/bfloat16.h, here by whole vectors: element by element the compiler
// takes a way through memory. These are inline bodies for WithIsa (ops/kit/isa.h). Vectors are passed by reference,
// because by value they have another ABI where the compiler's least processor has no such registers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "engine/base/bfloat16.h"
#include "ops/kit/isa.h"

// GCC makes several shuffles of what is one instruction on AVX2 and AVX-512, so it is given that one. The header
// declares them for functions that are not compiled for these instruction sets, as those that WithIsa's bodies inline.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SNUG_X86_VECTORS 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // a false alarm in GCC 12's own header (GCC bug 105593)
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#define SNUG_X86_VECTORS 0
#endif

namespace snug::core {
namespace internal {

// Makes words of 16-bit halves, which become the upper ones.
template <size_t kCount, size_t... i, class Halves, class Words>
SNUG_INLINE void UpperHalves(std::index_sequence<i...> /*positions*/, const Halves& halves, Words& words) {
  const Halves zeros = {};
  words = __builtin_shufflevector(zeros, halves, (i % 2 == 0 ? i / 2 : kCount + i / 2)...);
}

// Takes the upper halves of words.
template <size_t... i, class Words, class Halves>
SNUG_INLINE void TakeUpperHalves(std::index_sequence<i...> /*positions*/, const Words& words, Halves& halves) {
  halves = __builtin_shufflevector(words, words, (2 * i + 1)...);
}

#if SNUG_X86_VECTORS
// Sets `to` to a vector of kBytes, AVX2's or AVX-512's, of as many floats.
template <size_t kBytes>
SNUG_INLINE void LoadExtended(const BFloat16* from, void* to) {
  if constexpr (kBytes == 64) {
    typedef short Narrow __attribute__((vector_size(32)));  // NOLINT: the types that the builtins have
    typedef int Wide __attribute__((vector_size(64)));      // NOLINT
    Narrow narrow;
    std::memcpy(&narrow, from, sizeof(narrow));
    const Wide wide = __builtin_ia32_pmovzxwd512_mask(narrow, Wide{}, static_cast<unsigned short>(-1)) << 16;  // NOLINT
    std::memcpy(to, &wide, sizeof(wide));
  } else {
    typedef short Narrow __attribute__((vector_size(16)));  // NOLINT
    typedef int Wide __attribute__((vector_size(32)));      // NOLINT
    Narrow narrow;
    std::memcpy(&narrow, from, sizeof(narrow));
    const Wide wide = __builtin_ia32_pmovzxwd256(narrow) << 16;
    std::memcpy(to, &wide, sizeof(wide));
  }
}

// Stores the upper halves of the 8 words at `words`, a vector of AVX2.
SNUG_INLINE void StoreUpperHalves(const void* words, BFloat16* to) {
  typedef unsigned Wide __attribute__((vector_size(32)));  // NOLINT
  typedef int Part __attribute__((vector_size(16)));       // NOLINT
  Wide wide;
  std::memcpy(&wide, words, sizeof(wide));
  wide >>= 16;
  Part parts[2];
  std::memcpy(&parts, &wide, sizeof(parts));
  const auto packed = __builtin_ia32_packusdw128(parts[0], parts[1]);
  std::memcpy(static_cast<void*>(to), &packed, sizeof(packed));
}

// A vector of the instruction set.
template <Isa kIsa>
struct VectorOf {
  typedef float Floats __attribute__((vector_size(kIsa == Isa::kAvx512 ? 64 : 32)));  // NOLINT: as above
};

template <class Vector>
SNUG_INLINE bool HaveNaN(const Vector& one, const Vector& two) {
  constexpr int kUnordered = 3, kCurrentDirection = 4;  // as the header names them _CMP_UNORD_Q and so on
  if constexpr (sizeof(Vector) == 64) {
    return __builtin_ia32_cmpps512_mask(one, two, kUnordered, static_cast<unsigned short>(-1),  // NOLINT
                                        kCurrentDirection) != 0;
  } else {
    return __builtin_ia32_movmskps256(__builtin_ia32_cmpps256(one, two, kUnordered)) != 0;
  }
}
#endif

}  // namespace internal

// Does what LoadFloats does for vectors that need not be the instruction set's.
template <class Vector, class T>
SNUG_INLINE void LoadFloatsOfAnyWidth(const T* from, Vector& to) {
  if constexpr (std::is_same_v<T, float>) {
    std::memcpy(&to, from, sizeof(Vector));
  } else {
    static_assert(std::is_same_v<T, BFloat16>);
    constexpr size_t kCount = sizeof(Vector) / sizeof(float);
    typedef uint16_t Halves __attribute__((vector_size(kCount * sizeof(uint16_t))));     // NOLINT: `using` takes no
    typedef uint16_t Words __attribute__((vector_size(2 * kCount * sizeof(uint16_t))));  // dependent vector_size
    Halves halves;
    Words words;
    std::memcpy(&halves, from, sizeof(Halves));
    internal::UpperHalves<kCount>(std::make_index_sequence<2 * kCount>(), halves, words);
    std::memcpy(&to, &words, sizeof(Vector));
  }
}

template <class Vector, class T>
SNUG_INLINE void LoadFloats(const T* from, Vector& to) {
#if SNUG_X86_VECTORS
  if constexpr (std::is_same_v<T, BFloat16> && sizeof(Vector) >= 32) {
    internal::LoadExtended<sizeof(Vector)>(from, &to);
    return;
  }
#endif
  LoadFloatsOfAnyWidth(from, to);
}

namespace internal {

// Rounds a vector and stores it. kNumbers: none of them is NaN, whose bits are not rounded.
template <bool kNumbers, class Vector>
SNUG_INLINE void StoreRounded(const Vector& from, BFloat16* to) {
  constexpr size_t kCount = sizeof(Vector) / sizeof(float);
  typedef uint32_t Words __attribute__((vector_size(sizeof(Vector))));  // NOLINT: as above
  Words words;
  std::memcpy(&words, &from, sizeof(Vector));
  const Words nearest = words + (0x7fffU + ((words >> 16) & 1U));
  Words rounded = nearest;
  if constexpr (!kNumbers) {
    const Words quiet = words | 0x400000U;  // of NaN
    rounded = from == from ? nearest : quiet;
  }
#if SNUG_X86_VECTORS
  if constexpr (sizeof(Vector) == 32) {
    StoreUpperHalves(&rounded, to);
    return;
  }
#endif
  typedef uint16_t Pairs __attribute__((vector_size(sizeof(Vector))));              // NOLINT
  typedef uint16_t Halves __attribute__((vector_size(kCount * sizeof(uint16_t))));  // NOLINT
  Pairs pairs;
  Halves halves;
  std::memcpy(&pairs, &rounded, sizeof(Vector));
  TakeUpperHalves(std::make_index_sequence<kCount>(), pairs, halves);
  std::memcpy(static_cast<void*>(to), &halves, sizeof(Halves));
}

}  // namespace internal

template <class Vector, class T>
SNUG_INLINE void StoreFloats(const Vector& from, T* to) {
  if constexpr (std::is_same_v<T, float>) {
    std::memcpy(to, &from, sizeof(Vector));
  } else {
    static_assert(std::is_same_v<T, BFloat16>);
    internal::StoreRounded<false>(from, to);
  }
}

// The same for loops that are written once for single numbers and for vectors: F is float or a vector.
template <class F, class T>
SNUG_INLINE void LoadScalarOrVector(const T* from, F& to) {
  if constexpr (std::is_same_v<F, float>) {
    to = static_cast<float>(*from);
  } else {
    LoadFloats(from, to);
  }
}
template <class F, class T>
SNUG_INLINE void StoreScalarOrVector(const F& from, T* to) {
  if constexpr (std::is_same_v<F, float>) {
    *to = static_cast<T>(from);
  } else {
    StoreFloats(from, to);
  }
}

// Clamps a vector's numbers; NaN stays. The compiler sees minimum and maximum only where the same vector is compared
// and taken.
template <class Vector>
SNUG_INLINE void Clamp(float least, float most, Vector& v) {
  const Vector low = Vector{} + least, high = Vector{} + most;
  v = v < low ? low : v;
  v = v > high ? high : v;
}

#if SNUG_X86_VECTORS
namespace internal {

// The next two round a row's numbers from the i-th on, as many as their vectors hold, and return which comes next.

template <class Vector>
SNUG_INLINE int64_t RoundEach(int64_t i, int64_t n, const float* from, BFloat16* to) {
  constexpr auto kCount = static_cast<int64_t>(sizeof(Vector) / sizeof(float));
  Vector vector;
  for (; i + kCount <= n; i += kCount) {
    std::memcpy(&vector, from + i, sizeof(Vector));
    StoreRounded<false>(vector, to + i);
  }
  return i;
}

// Two vectors are asked together whether they have a NaN. As a rule they have none, and then rounding takes half as
// many instructions.
template <class Vector>
SNUG_INLINE int64_t RoundPairs(int64_t i, int64_t n, const float* from, BFloat16* to) {
  constexpr auto kCount = static_cast<int64_t>(sizeof(Vector) / sizeof(float));
  Vector one, two;
  for (; i + 2 * kCount <= n; i += 2 * kCount) {
    std::memcpy(&one, from + i, sizeof(Vector));
    std::memcpy(&two, from + i + kCount, sizeof(Vector));
    if (HaveNaN(one, two)) [[unlikely]] {
      StoreRounded<false>(one, to + i);
      StoreRounded<false>(two, to + i + kCount);
    } else {
      StoreRounded<true>(one, to + i);
      StoreRounded<true>(two, to + i + kCount);
    }
  }
  return i;
}

}  // namespace internal
#endif

// Rounds a row, which lies elsewhere than the numbers that it is made of.
template <Isa kIsa>
SNUG_INLINE void RoundRow(IsaConstant<kIsa> /*isa*/, int64_t n, const float* from, BFloat16* to) {
  int64_t i = 0;
#if SNUG_X86_VECTORS
  if constexpr (kIsa != Isa::kBaseline) {
    using Vector = typename internal::VectorOf<kIsa>::Floats;
    using Short = internal::VectorOf<Isa::kAvx2>::Floats;
    constexpr auto kShort = static_cast<int64_t>(sizeof(Short) / sizeof(float));
    i = internal::RoundPairs<Vector>(i, n, from, to);
    i = internal::RoundEach<Vector>(i, n, from, to);
    if constexpr (kIsa == Isa::kAvx512) i = internal::RoundEach<Short>(i, n, from, to);
    // The last numbers are rounded once more with those before them.
    if (i < n && n >= kShort) i = internal::RoundEach<Short>(n - kShort, n, from, to);
  }
#endif
  for (; i < n; ++i) to[i] = static_cast<BFloat16>(from[i]);
}

// Sets to[i] = number(i) for i in [0, n). What number(i) reads may lie where to[i] does, if it is no narrower: in
// bfloat16 some numbers are read before the first of them is written.
template <Isa kIsa, class T, class Number>
SNUG_INLINE void FillRow(IsaConstant<kIsa> isa, int64_t n, T* to, const Number& number) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    // In two loops: GCC makes many more instructions of the rounding when it makes them of both together.
    constexpr int64_t kRounded = 256;
    alignas(64) float numbers[kRounded];
    for (int64_t begin = 0; begin < n; begin += kRounded) {
      const int64_t count = std::min(kRounded, n - begin);
      SNUG_INDEPENDENT
      for (int64_t i = 0; i < count; ++i) numbers[i] = number(begin + i);
      RoundRow(isa, count, numbers, to + begin);
    }
  } else {
    SNUG_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(number(i));
  }
}

}  // namespace snug::core
