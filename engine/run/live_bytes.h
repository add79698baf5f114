// How many bytes of the step arena hold something that is needed, over the time of one run: what the plan's lifetimes
// become when Steps take as long as they took, on as many streams as they ran on.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/compile/plan_memory.h"
#include "engine/run/executor.h"

namespace snug {

class LiveBytes {
 public:
  LiveBytes(const memory::Tasks& tasks, const MemoryPlan& plan);

  struct Sample {
    int64_t ns = 0;
    int64_t bytes = 0;  // from then on
  };
  // A value is live from when its Step begins until the last one that reads it is done; what is fed from the first
  // Step's turn, what is fetched to the last one's end. A value that is written over, in place, is its heir's bytes.
  std::vector<Sample> During(absl::Span<const StepTime> times) const;

 private:
  struct Life {
    int64_t bytes = 0;
    int32_t producer = -1;         // Step; -1: there before the first one
    std::vector<int32_t> readers;  // Steps
    bool from_start = false, to_end = false;
    bool written_over = false;  // by the last reader
  };
  std::vector<Life> lives_;
};

}  // namespace snug
