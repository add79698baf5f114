#include "engine/base/parallel.h"

#ifdef SNUG_STD_THREADS
#include <thread>
#include <vector>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

namespace snug::core {
namespace internal {

void RunChunks(int threads, int64_t n, int64_t chunk, ChunkFn fn, void* body) {
  const int64_t chunks = (n + chunk - 1) / chunk;
  const int workers = static_cast<int>(std::min<int64_t>(threads, chunks));
  // Each worker takes one contiguous run of chunks, so that the same bytes stay with the same core from step to step.
  const auto run = [=](int worker) {
    const int64_t first = chunks * worker / workers;
    const int64_t last = chunks * (worker + 1) / workers;
    for (int64_t c = first; c < last; ++c) fn(body, c * chunk, std::min(n, (c + 1) * chunk));
  };
#ifdef SNUG_STD_THREADS
  std::vector<std::thread> pool;
  pool.reserve(static_cast<size_t>(workers) - 1);
  for (int w = 1; w < workers; ++w) pool.emplace_back(run, w);
  run(0);
  for (std::thread& t : pool) t.join();
#else
#pragma omp parallel num_threads(workers)
  {
#ifdef _OPENMP
    // The runtime may give fewer threads than asked for (in nested regions), so each thread takes several runs if it
    // must.
    for (int w = omp_get_thread_num(); w < workers; w += omp_get_num_threads()) run(w);
#else
    for (int w = 0; w < workers; ++w) run(w);
#endif
  }
#endif
}

}  // namespace internal

void SetThreadsPerOp(int threads) {
#ifdef _OPENMP
  omp_set_num_threads(threads);
#else
  (void)threads;
#endif
}

}  // namespace snug::core
