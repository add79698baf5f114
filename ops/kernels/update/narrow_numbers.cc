#include "ops/kernels/update/narrow_numbers.h"

#include <algorithm>
#include <limits>

#include "ops/kit/isa.h"

namespace snug::core {
namespace {

template <bool kSigned>
void DecodeBlock(const uint8_t* codes, uint32_t scale, int64_t n, float* numbers) {
  if (scale == 0) return static_cast<void>(std::fill_n(numbers, n, 0.0F));
  if (scale == kNoScale) return static_cast<void>(std::fill_n(numbers, n, std::numeric_limits<float>::quiet_NaN()));
  const uint32_t exponent = scale >> 23;
  WithIsa([=]() SNUG_LAMBDA {
    SNUG_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) numbers[i] = DecodeNumber<kSigned>(codes[i], exponent);
  });
}

template <bool kSigned>
uint32_t EncodeBlock(const float* numbers, const uint16_t* bits, int64_t n, uint8_t* codes) {
  uint32_t most = 0;
  WithIsa([=, &most]() SNUG_LAMBDA {
    uint32_t largest = 0;
    for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(numbers[i]) & 0x7fffffffU);
    most = largest;
  });
  const uint32_t scale = ScaleOf(most);
  if (scale == 0 || scale == kNoScale) {  // the codes mean nothing, but must not depend on what was there
    std::fill_n(codes, n, uint8_t{0});
    return scale;
  }
  const uint32_t exponent = scale >> 23;
  WithIsa([=]() SNUG_LAMBDA {
    // As bytes may be a part of anything, what is captured would be read anew after each that is written.
    const float* const from = numbers;
    const uint16_t* const drawn = bits;
    uint8_t* const to = codes;
    const uint32_t of_scale = exponent;
    const int64_t count = n;
    SNUG_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) {
      to[i] = static_cast<uint8_t>(EncodeNumber<kSigned>(from[i], of_scale, drawn[i]));
    }
  });
  return scale;
}

}  // namespace

void LoadNumbers(const KeptNumbers& kept, int64_t first, int64_t n, float* numbers) {
  if (kept.as == KeptAs::kFloat32) return static_cast<void>(std::copy_n(kept.wide() + first, n, numbers));
  if (kept.as == KeptAs::kBFloat16) {
    const BFloat16* const from = kept.halves() + first;
    return WithIsa([=]() SNUG_LAMBDA {
      SNUG_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) numbers[i] = static_cast<float>(from[i]);
    });
  }
  for (int64_t i = 0; i < n; i += kCodeBlock) {
    const uint8_t* const codes = kept.codes() + first + i;
    const uint32_t scale = kept.scales()[(first + i) / kCodeBlock];
    const int64_t count = std::min(kCodeBlock, n - i);
    if (kept.as == KeptAs::kSigned8) {
      DecodeBlock<true>(codes, scale, count, numbers + i);
    } else {
      DecodeBlock<false>(codes, scale, count, numbers + i);
    }
  }
}

void StoreNumbers(const KeptNumbers& kept, int64_t first, int64_t n, const float* numbers, const uint16_t* bits) {
  if (kept.as == KeptAs::kFloat32) return static_cast<void>(std::copy_n(numbers, n, kept.wide() + first));
  if (kept.as == KeptAs::kBFloat16) {
    BFloat16* const to = kept.halves() + first;
    return WithIsa([=]() SNUG_LAMBDA {
      SNUG_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) to[i] = RoundStochastically(numbers[i], bits[i]);
    });
  }
  for (int64_t i = 0; i < n; i += kCodeBlock) {
    uint8_t* const codes = kept.codes() + first + i;
    const int64_t count = std::min(kCodeBlock, n - i);
    kept.scales()[(first + i) / kCodeBlock] = kept.as == KeptAs::kSigned8
                                                  ? EncodeBlock<true>(numbers + i, bits + i, count, codes)
                                                  : EncodeBlock<false>(numbers + i, bits + i, count, codes);
  }
}

}  // namespace snug::core
