// What this machine's processors can do at most, measured: for judging how far kernels are from it.
#pragma once

#include <cstdint>

namespace snug::core {

// Returns the bytes that a copy reads and writes in a second, on so many threads, over `bytes` in all (both sides of
// it): the best of several. What fits a cache is copied again and again, so that it comes from there.
double CopyBytesPerSecond(int threads, int64_t bytes);

// More than any cache holds.
inline constexpr int64_t kBeyondCaches = int64_t{512} << 20;

// Returns the float32 operations in a second of multiply-adds on registers (two for each), on so many threads of the
// current instruction set: the best of several.
double MultiplyAddFlopsPerSecond(int threads);

}  // namespace snug::core
