// The rows of a recurrent cell's state, for lstm_cell and gru_cell.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/parallel.h"
#include "engine/base/shape.h"
#include "ops/kit/isa.h"

namespace snug::core {

// Calls row(r) for each row of the state, in vector loops.
template <class Row>
void ForEachStateRow(int threads, const Shape& state, Row row) {
  constexpr int64_t kChunk =
      1 << 11;  // elements of the state in a piece of work, for each of which there is much to do
  const int64_t width = state[state.rank() - 1];
  ParallelFor(threads, state.num_elements() / width, std::max<int64_t>(1, kChunk / width),
              [=](int64_t begin, int64_t end) {
                WithIsa([=]() SNUG_LAMBDA {
                  for (int64_t r = begin; r < end; ++r) row(r);
                });
              });
}

}  // namespace snug::core
