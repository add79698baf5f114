// Runs the Steps one after the other and catches each that touches bytes other than those it declares.
//
// It runs on a padded plan (padded_plan.h). While a Step runs, the pages of what it declares are open, those it only
// reads to readers alone; everything else, values that are dead or not yet written among it, cannot be touched, nor can
// the guard pages around each buffer. What pages cannot tell is found by two fillings: each Step runs twice, and what
// it must not depend on (outputs before they are written, its workspace, the bytes between a buffer and the ends of its
// pages) is filled with something else the second time. Bytes outside are then the same as before, and results are the
// same both times, or the Step is wrong. The error says which bytes of which buffer.
//
// One thread per op: faults are caught on the calling thread only. After a fault, the kernel's own state (locks, memory
// it took) is lost, see fault_catcher.h.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "engine/run/check/fault_catcher.h"
#include "engine/run/check/guarded_memory.h"
#include "engine/run/planned_executor.h"

namespace snug {

class CheckExecutor : public PlannedExecutor {
 public:
  // The Executable, on a padded plan, must outlive it. Between runs, all of the arenas is open.
  CheckExecutor(const Executable& executable, const ArenaBytes& arenas);

  absl::Status Run(Failure* failure) override;
  std::vector<At> Running() const override { return {{running_.load(std::memory_order_relaxed)}}; }

 private:
  // A block that a Step declares.
  struct Touch {
    size_t block = 0;
    bool reads = false, writes = false, workspace = false;
    std::string name;  // `input "fc1"`

    // What was there before is the Step's to use; otherwise it is filled.
    bool keeps() const { return reads || !writes; }
  };
  using Bytes = std::vector<std::byte>;
  // What gets which filling: `inside` of a block (where the Step does not keep what is there), or around the buffer.
  using Fillings = std::function<Filling(size_t touch, bool inside)>;

  absl::Status Check(FaultCatcher& catcher, size_t step);
  // Runs the Step with what it writes as it was before; checks everything but its results.
  absl::Status Attempt(FaultCatcher& catcher, size_t step, const std::vector<Bytes>& before, const Fillings& fillings);
  // The contents of what the Step writes, by touch; of what it writes over only, where `kept`.
  std::vector<Bytes> Contents(size_t step, bool kept) const;
  // Of a Step whose results differ: why.
  std::string Explain(FaultCatcher& catcher, size_t step, const std::vector<Bytes>& before,
                      const std::vector<Bytes>& first, const std::vector<Bytes>& second);
  std::string Describe(size_t step, const Fault& fault) const;
  // `buffer` and what became of it, for a Step that does not declare it.
  std::string DescribeForeign(size_t step, const GuardedBlock& block) const;
  std::string NameOf(size_t step, const GuardedBlock& block, bool writes) const;

  GuardedMemory memory_;
  std::vector<std::vector<Touch>> touches_;  // by Step
  std::atomic<int32_t> running_{-1};
};

}  // namespace snug
