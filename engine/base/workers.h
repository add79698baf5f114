// Tasks that each worker takes one after the other: for kernels whose workers have memory of their own, or ask for what
// their next task reads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/parallel.h"

namespace snug::core {

// Calls body(worker, first, last) for runs of [0, tasks), one for each thread.
template <class Body>
void ForEachWorker(int threads, int64_t tasks, const Body& body) {
  const int64_t workers = std::min<int64_t>(threads, tasks);
  ParallelFor(threads, workers, 1, [&](int64_t begin, int64_t end) {
    for (int64_t w = begin; w < end; ++w) body(w, tasks * w / workers, tasks * (w + 1) / workers);
  });
}

}  // namespace snug::core
