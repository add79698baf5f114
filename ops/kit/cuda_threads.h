// The size of blocks in every kernel that does not say otherwise. NVRTC reads this too.
#pragma once

namespace snug::core {

inline constexpr int kCudaThreads = 256;

}  // namespace snug::core
