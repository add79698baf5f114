// Reads and writes the index of N neighbouring maxima, which are channels of one window or of neighbouring ones: in an
// element each or, as half bytes, two to a byte, the first of them in its low bits. For use inside WithIsa bodies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/kernels/pool/reach.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/lanes.h"

namespace snug::core {

struct HalfByte {};  // stands for the type of an index of 4 bits, which serves windows of up to 16 taps

inline constexpr int64_t kHalfByteGroup = 16;  // lanes come in multiples of it where their indices are half bytes

// The elements in which an Index is stored, const where that is.
template <class Index>
struct StoredIndexOf {
  using type = Index;
};
template <>
struct StoredIndexOf<HalfByte> {
  using type = uint8_t;
};
template <>
struct StoredIndexOf<const HalfByte> {
  using type = const uint8_t;
};
template <class Index>
using StoredIndex = typename StoredIndexOf<Index>::type;

// Makes half bytes of N bytes, two at a time in a number of 16 bits, of which the compiler makes vectors.
template <int N>
SNUG_INLINE void JoinHalfBytes(const uint8_t* whole, uint8_t* halves) {
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < N / 2; ++j) {
    uint16_t two;
    std::memcpy(&two, whole + 2 * j, sizeof two);
    halves[j] = static_cast<uint8_t>(two | (two >> 4));
  }
}

// Adds to N sums those values of K windows whose index is the window's tap: window k has its values from value
// from[k] on, and its half bytes from half byte from[k] on.
//
// Eight half bytes are a number of 32 bits, in which none that is the tap is left after an exclusive or with eight of
// it. So a vector of eight such numbers, each with a half byte of its own unmasked, is 0 where a value is to be added.
// Spreading the indices out to bytes, through memory, takes longer.
template <int N, size_t K, class T, class A>
SNUG_INLINE void AddWhereTap(const uint8_t* halves, const T* values, const std::array<int64_t, K>& from,
                             const std::array<int32_t, K>& taps, A* sums) {
  constexpr int64_t kTogether = 8;
  for (int64_t first = 0; first < N; first += kTogether) {
    uint32_t others[K];  // half bytes that are not 0 where the index is not the tap
    for (size_t k = 0; k < K; ++k) {
      std::memcpy(&others[k], halves + (from[k] + first) / 2, sizeof(uint32_t));
      others[k] ^= static_cast<uint32_t>(taps[k]) * 0x11111111U;
    }
    if constexpr (std::is_same_v<A, float>) {
      typedef float Floats __attribute__((vector_size(kTogether * 4)));    // NOLINT: `using` takes no vector_size
      typedef uint32_t Words __attribute__((vector_size(kTogether * 4)));  // NOLINT
      typedef int32_t Ints __attribute__((vector_size(kTogether * 4)));    // NOLINT
      constexpr Words kHalfBytes = {0xf, 0xf0, 0xf00, 0xf000, 0xf0000, 0xf00000, 0xf000000, 0xf0000000};
      Floats sum;
      std::memcpy(&sum, sums + first, sizeof sum);
      for (size_t k = 0; k < K; ++k) {
        Floats value;
        LoadFloatsOfAnyWidth(values + from[k] + first, value);
        const Words other = (Words{} + others[k]) & kHalfBytes;
        // All bits or none. A comparison of so many would be made one by one where registers are shorter.
        const Ints is_other = reinterpret_cast<Ints>(other | -other) >> 31;
        sum += reinterpret_cast<Floats>(reinterpret_cast<Ints>(value) & ~is_other);
      }
      std::memcpy(sums + first, &sum, sizeof sum);
    } else {
      for (int64_t j = 0; j < kTogether; ++j) {
        for (size_t k = 0; k < K; ++k) {
          const bool is_tap = ((others[k] >> (4 * j)) & 0xfU) == 0;
          sums[first + j] += is_tap ? static_cast<A>(values[from[k] + first + j]) : A(0);
        }
      }
    }
  }
}

// As WriteReach. Half bytes are never cut short, because their lanes are whole groups.
template <int N, class Index, class Fn>
SNUG_INLINE void WriteIndices(StoredIndex<Index>* indices, Reach at, Fn fn) {
  if constexpr (std::is_same_v<Index, HalfByte>) {
    alignas(kCacheLine) uint8_t whole[N];
    fn(static_cast<uint8_t*>(whole));
    JoinHalfBytes<N>(whole, indices + at.at / 2);
  } else {
    WriteReach<N>(indices, at, fn);
  }
}

}  // namespace snug::core
