// Loads and stores of vectors of floats whose storage is float or BFloat16. What a BFloat16 is and how numbers are
// rounded to it is as in engine/base/bfloat16.h, here by whole vectors: element by element the compiler takes a way
// through memory. These are inline bodies for WithIsa (ops/kit/isa.h). Vectors are passed by reference, because by
// value they have another ABI where the compiler's least processor has no such registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "engine/base/bfloat16.h"
#include "ops/kit/isa.h"

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

}  // namespace internal

template <class Vector, class T>
SNUG_INLINE void LoadFloats(const T* from, Vector& to) {
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
SNUG_INLINE void StoreFloats(const Vector& from, T* to) {
  if constexpr (std::is_same_v<T, float>) {
    std::memcpy(to, &from, sizeof(Vector));
  } else {
    static_assert(std::is_same_v<T, BFloat16>);
    constexpr size_t kCount = sizeof(Vector) / sizeof(float);
    typedef uint32_t Words __attribute__((vector_size(sizeof(Vector))));              // NOLINT: as above
    typedef int32_t SignedWords __attribute__((vector_size(sizeof(Vector))));         // NOLINT
    typedef uint16_t Pairs __attribute__((vector_size(sizeof(Vector))));              // NOLINT
    typedef uint16_t Halves __attribute__((vector_size(kCount * sizeof(uint16_t))));  // NOLINT
    Words words;
    std::memcpy(&words, &from, sizeof(Vector));
    const Words magnitude = words & 0x7fffffffU;
    SignedWords signed_magnitude;  // it has no sign, and signed numbers are compared faster
    std::memcpy(&signed_magnitude, &magnitude, sizeof(Vector));
    const Words nearest = words + (0x7fffU + ((words >> 16) & 1U));
    const Words rounded = signed_magnitude > 0x7f800000 ? words | 0x400000U : nearest;
    Pairs pairs;
    Halves halves;
    std::memcpy(&pairs, &rounded, sizeof(Vector));
    internal::TakeUpperHalves(std::make_index_sequence<kCount>(), pairs, halves);
    std::memcpy(static_cast<void*>(to), &halves, sizeof(Halves));
  }
}

}  // namespace snug::core
