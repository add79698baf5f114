// Several neighbours in an array, which are read and written at once. NVRTC compiles this file too.
#pragma once

#include <bit>
#include <cstdint>

#include "engine/base/host_device.h"

namespace snug::core {

// A pack of more than 16 bytes is several accesses, so it may lie at any multiple of 16 too.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) CudaPack {
  T values[kCount];
};

// How many numbers of a type one access of 16 bytes has.
template <class T>
inline constexpr int kCudaPack = 16 / static_cast<int>(sizeof(T));

// Reads and writes a whole pack. nvcc takes a struct apart and stores its members one by one, unless it is told.
template <class Pack, class T>
SNUG_HOST_DEVICE inline Pack LoadWhole(const T* from) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Pack) == sizeof(uint4)) return std::bit_cast<Pack>(*reinterpret_cast<const uint4*>(from));
  if constexpr (sizeof(Pack) == 2 * sizeof(uint4)) {
    const auto* halves = reinterpret_cast<const uint4*>(from);
    return std::bit_cast<Pack>(CudaPack<uint4, 2>{{halves[0], halves[1]}});
  }
  if constexpr (sizeof(Pack) == sizeof(uint2)) return std::bit_cast<Pack>(*reinterpret_cast<const uint2*>(from));
  if constexpr (sizeof(Pack) == sizeof(uint32_t)) return std::bit_cast<Pack>(*reinterpret_cast<const uint32_t*>(from));
#endif
  return *reinterpret_cast<const Pack*>(from);
}
template <class Pack, class T>
SNUG_HOST_DEVICE inline void StoreWhole(const Pack& pack, T* to) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Pack) == sizeof(uint4)) {
    const auto words = std::bit_cast<uint4>(pack);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(words.x),
                 "r"(words.y), "r"(words.z), "r"(words.w)
                 : "memory");
    return;
  }
  if constexpr (sizeof(Pack) == 2 * sizeof(uint4)) {
    const auto halves = std::bit_cast<CudaPack<CudaPack<uint32_t, 4>, 2>>(pack);
    auto* places = reinterpret_cast<uint32_t*>(to);
    StoreWhole(halves.values[0], places);
    StoreWhole(halves.values[1], places + 4);
    return;
  }
  if constexpr (sizeof(Pack) == sizeof(uint2)) {
    const auto words = std::bit_cast<uint2>(pack);
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "r"(words.x), "r"(words.y)
                 : "memory");
    return;
  }
#endif
  *reinterpret_cast<Pack*>(to) = pack;
}

// Reads `count` neighbours, and 0 in place of the others; with kWhole all of them at once, from a multiple of their
// size.
template <bool kWhole, int kPack, class T>
SNUG_HOST_DEVICE inline CudaPack<T, kPack> LoadPack(const T* from, int count) {
  if constexpr (kWhole) {
    return LoadWhole<CudaPack<T, kPack>>(from);
  } else {
    CudaPack<T, kPack> pack;
    for (int j = 0; j < kPack; ++j) pack.values[j] = j < count ? from[j] : T(0.0F);
    return pack;
  }
}

// Writes `count` neighbours.
template <bool kWhole, int kPack, class T>
SNUG_HOST_DEVICE inline void StorePack(const CudaPack<T, kPack>& pack, T* to, int count) {
  if constexpr (kWhole) {
    StoreWhole(pack, to);
  } else {
    for (int j = 0; j < kPack; ++j) {
      if (j < count) to[j] = pack.values[j];
    }
  }
}

}  // namespace snug::core
