// Memory without a plan (`--memory=dynamic`): a step takes blocks from an allocator and gives them back as they die.
//
// A block holds one value, or several that are written one over the other. Which blocks there are and which Steps use
// them is known beforehand; where they lie is known when they are taken. What is fed and fetched is the user's: its
// blocks are taken once and kept. Variables lie in the state arena, as everywhere.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/device.h"
#include "engine/compile/tasks.h"
#include "memory/allocator/garbage.h"
#include "memory/allocator/options.h"
#include "memory/allocator/place.h"
#include "memory/allocator/simulate.h"
#include "memory/allocator/statistics.h"
#include "memory/strategies.h"

namespace snug {

inline constexpr absl::string_view kDynamicMemory = "dynamic";  // where strategies are named

struct DynamicMemoryOptions {
  memory::AllocatorOptions allocator;  // its limit is on all bytes, Variables included
  memory::GarbageOptions garbage;
  bool inplace = true;  // outputs take the bytes of inputs that nobody else needs any more

  bool operator==(const DynamicMemoryOptions&) const = default;
};

memory::Place PlaceOf(Device device);

struct DynamicMemory {
  struct Block {
    std::string name;  // of its value, or of the first and the last
    int64_t bytes = 0;
    int32_t uses = 0;  // how many Steps use it; 0: it does not die by counting (held, or a workspace)
    bool held = false;
    absl::string_view held_as = {};  // "fed", "fetched" or both: why the user holds it
  };
  struct StepBlocks {
    std::vector<int32_t> takes;  // before the kernel, the largest first
    std::vector<int32_t> uses;   // of those that are counted; ascending
    int32_t workspace = -1;      // given back after the kernel
  };

  DynamicMemoryOptions options;
  memory::Place place;  // where blocks will lie
  std::vector<Block> blocks;
  std::vector<int32_t> block_of_buffer;  // by buffer of the step problem
  std::vector<StepBlocks> steps;         // in Order
  // Of steps that run one Op after the other. With several workers it depends on which of them are ahead.
  memory::AllocatorStatistics predicted;
};

// The blocks of a step in the order `given`. `step` gets that order, lifetimes, and for each block a range of bytes
// that no other block has: not where it lies, but by what the one rule of engine/base/conflict.h tells blocks apart.
DynamicMemory FindBlocks(const StepTasks& tasks, const memory::TaskOrder& given, const DynamicMemoryOptions& options,
                         memory::TaskPlan* step);

// Says when blocks die: as counts fall to zero, and as the collector then decides. Thread-safe: counts are atomic, the
// collector has a lock.
class BlockCounts {
 public:
  explicit BlockCounts(const DynamicMemory& memory);  // which must outlive it

  // After the Step. Calls free(block) for each block to be given back now; its own workspace comes last.
  template <class Free>
  void StepDone(size_t step, const Free& free) {
    for (const int32_t block : memory_.steps[step].uses) {
      if (CountDown(block)) Died(block, free);
    }
    if (memory_.steps[step].workspace >= 0) free(memory_.steps[step].workspace);
  }
  // After the last Step: what the collector kept.
  template <class Free>
  void EndRun(const Free& free) {
    const std::lock_guard<std::mutex> lock(mu_);
    for (const int32_t dead : collector_.EndStep()) free(dead);
  }
  // After EndRun, where Steps were left out.
  void Reset();

 private:
  // Whether that was the last use. The count is ready for the next run then: all that use the block have run.
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
  std::vector<std::atomic<int32_t>> counts_;  // Steps of this run that will still use it
  std::mutex mu_;                             // guards collector_
  memory::GarbageCollector collector_;
};

// What some steps ask of the allocator, one Op after the other.
std::vector<memory::AllocatorEvent> EventsOf(const DynamicMemory& memory, int steps);

// The allocator's own options: without the bytes of the Variables, which come first. ResourceExhausted where nothing is
// left.
absl::StatusOr<memory::AllocatorOptions> OptionsBeside(const memory::AllocatorOptions& options, int64_t state_bytes);

// Runs some steps on a pretended device with `free_bytes` (-1: without end). ResourceExhausted, with the report that a
// run would get, where they do not fit.
absl::StatusOr<memory::AllocatorStatistics> Predict(const DynamicMemory& memory, int64_t state_bytes,
                                                    int64_t free_bytes);

}  // namespace snug
