// Memory without a plan (`--memory=dynamic`): a step takes blocks from an allocator and gives them back when they die.
//
// A block holds one value, or several that are written over each other. The compiler knows which blocks there are and
// which Steps use them; where they lie is known once they are taken. Blocks of what is fed and fetched belong to the
// user: they are taken once and kept. Variables lie in the state arena, as always.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/device.h"
#include "engine/compile/memory/tasks.h"
#include "memory/allocator/garbage.h"
#include "memory/allocator/memory_source.h"
#include "memory/allocator/options.h"
#include "memory/allocator/simulate.h"
#include "memory/allocator/statistics.h"
#include "memory/strategies.h"

namespace snug::core {

inline constexpr absl::string_view kDynamicMemory = "dynamic";  // goes where the name of a strategy can go

struct DynamicMemoryOptions {
  memory::AllocatorOptions allocator;  // its limit covers all bytes, Variables included
  memory::GarbageOptions garbage;
  bool inplace = true;  // outputs take the bytes of inputs that nobody needs any more

  bool operator==(const DynamicMemoryOptions&) const = default;
};

memory::Place PlaceOf(Device device);

struct DynamicMemory {
  struct ValueBlock {
    std::string name;  // the name of its value, or of the first and the last
    int64_t bytes = 0;
    int32_t uses = 0;  // how many Steps use it; 0: its uses are not counted, because the user holds it or it is a
                       // workspace
    bool held = false;
    absl::string_view held_as = {};  // why the user holds it: "fed", "fetched" or "fed and fetched"
  };
  struct StepBlocks {
    std::vector<int32_t> takes;  // taken before the kernel runs, the largest first
    std::vector<int32_t> uses;   // the counted blocks that the Step uses, ascending
    int32_t workspace = -1;      // given back after the kernel has run
  };

  DynamicMemoryOptions options;
  memory::Place place;  // where the blocks will lie
  std::vector<ValueBlock> blocks;
  std::vector<int32_t> block_of_buffer;  // by buffer of the step problem
  std::vector<StepBlocks> steps;         // in the sequence of the Order
  // This prediction is for steps that run one Op after the other. With several workers the figures depend on which of
  // them are ahead.
  memory::AllocatorStatistics predicted;
};

// Finds the blocks of a step in the order `given`. `step` gets that order, the lifetimes, and a range of bytes for each
// block. A range does not say where the block lies; no two blocks have the same bytes in it, and so
// engine/base/conflict.h can tell them apart.
DynamicMemory FindBlocks(const StepTasks& tasks, const memory::TaskOrder& given, const DynamicMemoryOptions& options,
                         memory::TaskPlan* step);

// Says when blocks die: when their counts fall to zero, and when the collector then decides. Thread-safe: counts are
// atomic, and the collector has a lock.
class BlockCounts {
 public:
  explicit BlockCounts(const DynamicMemory& memory);  // `memory` must outlive this

  // Must be called after the Step. Calls free(block) for each block to be given back now; the Step's own workspace
  // comes last.
  template <class Free>
  void StepDone(size_t step, const Free& free) {
    for (const int32_t block : memory_.steps[step].uses) {
      if (CountDown(block)) Died(block, free);
    }
    if (memory_.steps[step].workspace >= 0) free(memory_.steps[step].workspace);
  }
  // Must be called after the last Step. Frees what the collector has kept.
  template <class Free>
  void EndRun(const Free& free) {
    const std::lock_guard<std::mutex> lock(mu_);
    for (const int32_t dead : collector_.EndStep()) free(dead);
  }
  // Must follow EndRun where Steps were left out.
  void Reset();

 private:
  // Tells whether that was the last use. If so, the count is reset for the next run: all users of the block have run.
  bool CountDown(int32_t block) {
    std::atomic<int32_t>& count = counts_[static_cast<size_t>(block)];
    if (count.fetch_sub(1, std::memory_order_acq_rel) > 1) return false;
    count.store(memory_.blocks[static_cast<size_t>(block)].uses, std::memory_order_relaxed);
    return true;
  }
  template <class Free>
  void Died(int32_t block, const Free& free) {
    const std::lock_guard<std::mutex> lock(mu_);
    for (const int32_t dead : collector_.Died(block)) free(dead);
  }

  const DynamicMemory& memory_;
  std::vector<std::atomic<int32_t>> counts_;  // how many Steps of this run will still use each block
  std::mutex mu_;                             // guards collector_
  memory::GarbageCollector collector_;
};

// Returns what some steps ask of the allocator, one Op after the other.
std::vector<memory::AllocatorEvent> EventsOf(const DynamicMemory& memory, int steps);

// Returns the allocator's options with the limit reduced by the bytes of the Variables, which come first. Fails with
// ResourceExhausted where nothing is left.
absl::StatusOr<memory::AllocatorOptions> OptionsBeside(const memory::AllocatorOptions& options, int64_t state_bytes);

// Simulates some steps on a device with `free_bytes` (-1: unlimited). Fails with ResourceExhausted, and the report that
// a run would get, where they do not fit.
absl::StatusOr<memory::AllocatorStatistics> Predict(const DynamicMemory& memory, int64_t state_bytes,
                                                    int64_t free_bytes);

}  // namespace snug::core
