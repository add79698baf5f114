// The functions of ops/kit/cuda/tensor_core.h, which says what they do, on the processor.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "engine/base/bfloat16.h"
#include "tests/cuda/emulation/warp.h"

namespace snug::core {

inline void CopyAsync16(void* to, const void* from, bool there) {
  const auto odd = [](const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 != 0; };
  if (odd(to) || (there && odd(from))) cuda::emulation::FailInWarp("CopyAsync16", "an address is no multiple of 16");
  cuda::emulation::CopyLater(to, from, 16, there ? 16 : 0);
}
inline void CommitCopies() { cuda::emulation::CommitCopies(); }
template <int kLeft>
inline void WaitForCopies() {
  cuda::emulation::WaitForCopies(kLeft);
}

namespace internal {

inline constexpr unsigned kWholeWarp = 0xffffffffU;

template <bool kTransposed>
inline void LoadMatrices(const char* name, const void* row, uint32_t (&parts)[4]) {
  cuda::emulation::MeetWarp({name, kWholeWarp, &row, &parts, [](const cuda::emulation::WarpCall* const* lanes) {
                               const auto number = [&](int m, int r, int i) {
                                 const void* own = *static_cast<const void* const*>(lanes[8 * m + r]->in);
                                 return uint32_t{static_cast<const uint16_t*>(own)[i]};
                               };
                               for (int lane = 0; lane < cuda::emulation::kWarpLanes; ++lane) {
                                 const int r = lane / 4;
                                 const int i = lane % 4 * 2;
                                 for (int m = 0; m < 4; ++m) {
                                   const uint32_t low = kTransposed ? number(m, i, r) : number(m, r, i);
                                   const uint32_t high = kTransposed ? number(m, i + 1, r) : number(m, r, i + 1);
                                   static_cast<uint32_t*>(lanes[lane]->out)[m] = high << 16 | low;
                                 }
                               }
                             }});
}

// Returns number `i` (0 or 1) of a pair of bfloat16.
inline float Half(uint32_t pair, int i) { return std::bit_cast<float>(i == 0 ? pair << 16 : pair & 0xffff0000U); }

}  // namespace internal

inline void LoadMatrices(const void* row, uint32_t (&parts)[4]) {
  internal::LoadMatrices<false>("LoadMatrices", row, parts);
}
inline void LoadMatricesTransposed(const void* row, uint32_t (&parts)[4]) {
  internal::LoadMatrices<true>("LoadMatricesTransposed", row, parts);
}

inline void MultiplyAdd(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  struct Factors {
    uint32_t a[4], b[2];
  };
  const Factors factors = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  cuda::emulation::MeetWarp(
      {"MultiplyAdd", internal::kWholeWarp, &factors, &sums, [](const cuda::emulation::WarpCall* const* lanes) {
         float left[16][16];
         float right[16][8];
         for (int lane = 0; lane < cuda::emulation::kWarpLanes; ++lane) {
           const auto& own = *static_cast<const Factors*>(lanes[lane]->in);
           const int row = lane / 4;
           const int column = lane % 4 * 2;
           for (int i = 0; i < 2; ++i) {
             for (int part = 0; part < 4; ++part) {
               left[row + part % 2 * 8][column + part / 2 * 8 + i] = internal::Half(own.a[part], i);
             }
             for (int part = 0; part < 2; ++part) right[column + part * 8 + i][row] = internal::Half(own.b[part], i);
           }
         }
         for (int lane = 0; lane < cuda::emulation::kWarpLanes; ++lane) {
           auto* const result = static_cast<float*>(lanes[lane]->out);
           for (int i = 0; i < 4; ++i) {
             const int row = lane / 4 + i / 2 * 8;
             const int column = lane % 4 * 2 + i % 2;
             for (int k = 0; k < 16; ++k) result[i] += left[row][k] * right[k][column];
           }
         }
       }});
}

inline uint32_t PairOf(float first, float second) {
  return static_cast<uint32_t>(BFloat16(second).bits) << 16 | BFloat16(first).bits;
}
inline float FastExp2(float x) { return std::exp2(x); }

}  // namespace snug::core
