// The one intra-op runtime: every loop of ours that uses several threads goes through here. It uses OpenMP, as Debian's
// oneDNN does, so that both share one pool of threads; TSan builds, where OpenMP is not instrumented, use std::thread.
//
// Work is cut into chunks by the shape alone, never by the number of threads: a reduction that keeps one partial result
// per chunk then gives the same bits on any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace snug::core {

namespace internal {
using ChunkFn = void (*)(void* body, int64_t begin, int64_t end);
void RunChunks(int threads, int64_t n, int64_t chunk, ChunkFn fn, void* body);
}  // namespace internal

// Calls body(begin, end) for [0, n) cut into pieces of `chunk` (the last may be shorter), on up to `threads` threads. A
// single piece, or a single thread, runs on the caller without the runtime.
template <class Body>
void ParallelFor(int threads, int64_t n, int64_t chunk, Body&& body) {
  if (n <= 0) return;
  chunk = std::max<int64_t>(chunk, 1);
  if (threads <= 1 || n <= chunk) {
    for (int64_t begin = 0; begin < n; begin += chunk) body(begin, std::min(n, begin + chunk));
    return;
  }
  using Plain = std::remove_reference_t<Body>;
  internal::RunChunks(
      threads, n, chunk, [](void* b, int64_t begin, int64_t end) { (*static_cast<Plain*>(b))(begin, end); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

// Tells OpenMP (and with it oneDNN) how many threads the calling thread's parallel regions use.
void SetThreadsPerOp(int threads);

}  // namespace snug::core
