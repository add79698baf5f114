// Counts the bytes of the step arena that hold something needed, over the time of one run: the plan's lifetimes with
// the times that Steps really took, on the streams they ran on.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/compile/memory/plan_memory.h"
#include "engine/run/executors/executor.h"

namespace snug::core {

class LiveBytes {
 public:
  LiveBytes(const memory::Tasks& tasks, const MemoryPlan& plan);

  struct Sample {
    int64_t ns = 0;
    int64_t bytes = 0;  // live from this time on
  };
  // A value is live from when its Step begins until its last reader is done. What is fed is live from the first Step's
  // turn, and what is fetched until the end of the last Step. When a value is written over in place, its bytes count
  // for the value that takes them.
  std::vector<Sample> During(absl::Span<const StepTime> times) const;

 private:
  struct Life {
    int64_t bytes = 0;
    int32_t producer = -1;         // a Step; -1: it is there before the first one
    std::vector<int32_t> readers;  // Steps
    bool from_start = false, to_end = false;
    bool written_over = false;  // the last reader writes over it
  };
  std::vector<Life> lives_;
};

}  // namespace snug::core
