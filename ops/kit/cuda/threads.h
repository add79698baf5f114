// The size of blocks in every kernel that does not say otherwise. NVRTC reads this too.
#pragma once

namespace snug::core {

inline constexpr int kCudaThreads = 256;
// The most that a block of any kernel that reduces has.
inline constexpr int kMostBlockThreads = 512;

}  // namespace snug::core
