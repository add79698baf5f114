// How norms cut their work into chunks, and the sums of chunks that the gradients of their weights end with.
#pragma once

#include <cstdint>

#include "engine/base/parallel.h"
#include "ops/kit/isa.h"

namespace snug::core {

inline constexpr int64_t kNormChunk = 1 << 15;  // the fewest elements in a piece of work
inline constexpr int64_t kMinNormRows = 16;  // a piece has no fewer rows, so that its sums are few beside its elements

// Adds up the chunks' sums in order: sum[i] is that of partial[chunk * step + i] over all chunks, for i in [0, width).
template <class S>
void AddNormChunks(int threads, int64_t chunks, int64_t step, int64_t width, const S* partial, S* sum) {
  constexpr int64_t kColumns = 64;
  ParallelFor(threads, width, kColumns, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      double sums[kColumns];
      const int64_t columns = end - begin;
      for (int64_t j = 0; j < columns; ++j) sums[j] = 0;
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const S* of_chunk = partial + chunk * step + begin;
        for (int64_t j = 0; j < columns; ++j) sums[j] += static_cast<double>(of_chunk[j]);
      }
      for (int64_t j = 0; j < columns; ++j) sum[begin + j] = static_cast<S>(sums[j]);
    });
  });
}

}  // namespace snug::core
