#include "ops/kit/random_state.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // a false alarm in GCC 12's own header (GCC bug 105593)
#endif
#include <immintrin.h>
#endif

#include "ops/kit/isa.h"

namespace snug::core {
namespace {

#if defined(__x86_64__)
// These are Philox's constants (engine/base/random.h).
constexpr uint32_t kMultiplier0 = 0xD2511F53U;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57U;
constexpr uint32_t kWeyl0 = 0x9E3779B9U;
constexpr uint32_t kWeyl1 = 0xBB67AE85U;
constexpr uint32_t kRounds = 10;

// Written by hand, these are more than twice as fast as what the compiler makes of a loop. A lane of 64 bits holds a
// word of one counter in its lower half, which is all that the multiplication reads; the upper half may hold anything.
void DrawWordsSse2(RandomStream random, uint64_t counter, int64_t n, uint32_t* words) {
  const __m128i multiplier0 = _mm_set1_epi64x(kMultiplier0);
  const __m128i multiplier1 = _mm_set1_epi64x(kMultiplier1);
  const __m128i low_half = _mm_set1_epi64x(0xffffffffU);
  __m128i keys0[kRounds], keys1[kRounds];
  for (uint32_t round = 0; round < kRounds; ++round) {
    keys0[round] = _mm_set1_epi64x(static_cast<uint32_t>(random.key) + round * kWeyl0);
    keys1[round] = _mm_set1_epi64x(static_cast<uint32_t>(random.key >> 32) + round * kWeyl1);
  }
  for (int64_t i = 0; i < n; i += 2) {
    const uint64_t at = counter + static_cast<uint64_t>(i);
    __m128i c0 = _mm_add_epi64(_mm_set1_epi64x(static_cast<int64_t>(at)), _mm_set_epi64x(1, 0));
    __m128i c1 = _mm_srli_epi64(c0, 32);
    __m128i c2 = _mm_set1_epi64x(static_cast<int64_t>(random.stream));
    __m128i c3 = _mm_srli_epi64(c2, 32);
    for (uint32_t round = 0; round < kRounds; ++round) {
      const __m128i p0 = _mm_mul_epu32(c0, multiplier0);
      const __m128i p1 = _mm_mul_epu32(c2, multiplier1);
      c0 = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(p1, 32), c1), keys0[round]);
      c1 = p1;
      c2 = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(p0, 32), c3), keys1[round]);
      c3 = p0;
    }
    const __m128i c01 = _mm_or_si128(_mm_and_si128(c0, low_half), _mm_slli_epi64(c1, 32));
    const __m128i c23 = _mm_or_si128(_mm_and_si128(c2, low_half), _mm_slli_epi64(c3, 32));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(words + 4 * i), _mm_unpacklo_epi64(c01, c23));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(words + 4 * i + 4), _mm_unpackhi_epi64(c01, c23));
  }
}

__attribute__((target("avx2"))) void DrawWordsAvx2(RandomStream random, uint64_t counter, int64_t n, uint32_t* words) {
  const __m256i multiplier0 = _mm256_set1_epi64x(kMultiplier0);
  const __m256i multiplier1 = _mm256_set1_epi64x(kMultiplier1);
  const __m256i low_half = _mm256_set1_epi64x(0xffffffffU);
  __m256i keys0[kRounds], keys1[kRounds];
  for (uint32_t round = 0; round < kRounds; ++round) {
    keys0[round] = _mm256_set1_epi64x(static_cast<uint32_t>(random.key) + round * kWeyl0);
    keys1[round] = _mm256_set1_epi64x(static_cast<uint32_t>(random.key >> 32) + round * kWeyl1);
  }
  for (int64_t i = 0; i < n; i += 4) {
    const uint64_t at = counter + static_cast<uint64_t>(i);
    __m256i c0 = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<int64_t>(at)), _mm256_set_epi64x(3, 2, 1, 0));
    __m256i c1 = _mm256_srli_epi64(c0, 32);
    __m256i c2 = _mm256_set1_epi64x(static_cast<int64_t>(random.stream));
    __m256i c3 = _mm256_srli_epi64(c2, 32);
    for (uint32_t round = 0; round < kRounds; ++round) {
      const __m256i p0 = _mm256_mul_epu32(c0, multiplier0);
      const __m256i p1 = _mm256_mul_epu32(c2, multiplier1);
      c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1), keys0[round]);
      c1 = p1;
      c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3), keys1[round]);
      c3 = p0;
    }
    const __m256i c01 = _mm256_or_si256(_mm256_and_si256(c0, low_half), _mm256_slli_epi64(c1, 32));
    const __m256i c23 = _mm256_or_si256(_mm256_and_si256(c2, low_half), _mm256_slli_epi64(c3, 32));
    const __m256i even = _mm256_unpacklo_epi64(c01, c23);
    const __m256i odd = _mm256_unpackhi_epi64(c01, c23);
    auto* to = reinterpret_cast<__m256i*>(words + 4 * i);
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
}

__attribute__((target("avx512f"))) void DrawWordsAvx512(RandomStream random, uint64_t counter, int64_t n,
                                                        uint32_t* words) {
  const __m512i multiplier0 = _mm512_set1_epi64(kMultiplier0);
  const __m512i multiplier1 = _mm512_set1_epi64(kMultiplier1);
  const __m512i low_half = _mm512_set1_epi64(0xffffffffU);
  __m512i keys0[kRounds], keys1[kRounds];
  for (uint32_t round = 0; round < kRounds; ++round) {
    keys0[round] = _mm512_set1_epi64(static_cast<uint32_t>(random.key) + round * kWeyl0);
    keys1[round] = _mm512_set1_epi64(static_cast<uint32_t>(random.key >> 32) + round * kWeyl1);
  }
  const __m512i first_half = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
  const __m512i second_half = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
  for (int64_t i = 0; i < n; i += kCountersAtOnce) {
    const uint64_t at = counter + static_cast<uint64_t>(i);
    __m512i c0 =
        _mm512_add_epi64(_mm512_set1_epi64(static_cast<int64_t>(at)), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    __m512i c1 = _mm512_srli_epi64(c0, 32);
    __m512i c2 = _mm512_set1_epi64(static_cast<int64_t>(random.stream));
    __m512i c3 = _mm512_srli_epi64(c2, 32);
    for (uint32_t round = 0; round < kRounds; ++round) {
      const __m512i p0 = _mm512_mul_epu32(c0, multiplier0);
      const __m512i p1 = _mm512_mul_epu32(c2, multiplier1);
      c0 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p1, 32), c1), keys0[round]);
      c1 = p1;
      c2 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p0, 32), c3), keys1[round]);
      c3 = p0;
    }
    const __m512i c01 = _mm512_or_si512(_mm512_and_si512(c0, low_half), _mm512_slli_epi64(c1, 32));
    const __m512i c23 = _mm512_or_si512(_mm512_and_si512(c2, low_half), _mm512_slli_epi64(c3, 32));
    _mm512_storeu_si512(words + 4 * i, _mm512_permutex2var_epi64(c01, first_half, c23));
    _mm512_storeu_si512(words + 4 * i + 16, _mm512_permutex2var_epi64(c01, second_half, c23));
  }
}
#endif

}  // namespace

void DrawWords(RandomStream random, uint64_t counter, int64_t n, uint32_t* words) {
#if defined(__x86_64__)
  switch (CurrentIsa()) {
    case Isa::kAvx512:
      return DrawWordsAvx512(random, counter, n, words);
    case Isa::kAvx2:
      return DrawWordsAvx2(random, counter, n, words);
    case Isa::kBaseline:
      return DrawWordsSse2(random, counter, n, words);
  }
#else
  for (int64_t i = 0; i < n; ++i) {
    const std::array<uint32_t, 4> drawn = Philox{random.key}(random.stream, counter + static_cast<uint64_t>(i));
    std::copy(drawn.begin(), drawn.end(), words + 4 * i);
  }
#endif
}

absl::Status CheckRandomState(const InferContext& c, int input) {
  const ValueType expected = {DType::kInt64, {2}, {}};
  if (c.input(input) == expected) return absl::OkStatus();
  return c.InputError(input, absl::StrCat("expected ", expected.ToString(), ", found ", c.input(input).ToString()));
}

}  // namespace snug::core
