// What one training step asks of a kernel library, and what is left: its convolutions and matrix products, equal ones
// once with their number, and the bytes that everything else reads and writes.
#pragma once

#include <vector>

#include "bench/library_call.h"
#include "engine/compile/pipeline.h"
#include "ops/registry.h"

namespace snug::core::bench {

struct CountedCall {
  LibraryCall call;
  int count = 1;
};

struct StepWork {
  std::vector<CountedCall> calls;
  double other_bytes = 0;  // layout conversions are not counted: a perfect step has none
};

StepWork FindStepWork(const Compiled& compiled, const OpRegistry& registry);

}  // namespace snug::core::bench
