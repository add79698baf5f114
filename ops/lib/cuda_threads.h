// Of every kernel that does not say otherwise. NVRTC reads this too.
#pragma once

namespace snug {

inline constexpr int kCudaThreads = 256;  // of a block

}  // namespace snug
