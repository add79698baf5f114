// Runs the Steps one after the other and catches each one that touches bytes other than those it declares.
//
// It runs on a padded plan (PadPlan). While a Step runs, the pages that it declares are open, those it only reads
// for reading alone. Everything else cannot be touched: values that are dead or not yet written, and the guard pages
// around each buffer. Pages are too coarse to find everything, so each Step runs twice. What it must not depend on
// (outputs before they are written, its workspace, the bytes between a buffer and the ends of its pages) is filled with
// something else the second time. The Step is wrong if bytes outside change, or if the two results differ. The error
// says which bytes of which buffer.
//
// Faults are only caught on the calling thread, so ops must use one thread. After a fault the kernel's own state
// (locks, memory it took) is lost, see FaultCatcher.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/run/check/guarded_memory.h"
#include "engine/run/executors/bound_steps.h"

namespace snug::core {

class CheckExecutor : public BoundExecutor {
 public:
  // The Executable must have a padded plan, and must outlive this. Between runs all arenas are open.
  CheckExecutor(const Executable& executable, const ArenaBytes& arenas);

  absl::Status Run(Failure* failure) override;
  std::vector<At> Running() const override { return {{running_.load(std::memory_order_relaxed)}}; }

 private:
  // A block that a Step declares.
  struct Touch {
    size_t block = 0;
    bool reads = false, writes = false, workspace = false;
    std::string name;  // `input "fc1"`

    // Tells whether the Step may use what was there before; otherwise that is filled.
    bool keeps() const { return reads || !writes; }
  };
  using Bytes = std::vector<std::byte>;
  // Returns the filling for a touch: `inside` its block (where the Step does not keep what is there) or around the
  // buffer.
  using Fillings = std::function<Filling(size_t touch, bool inside)>;

  absl::Status Check(FaultCatcher& catcher, size_t step);
  // Runs the Step once, with what it writes as it was before, and checks everything but its results.
  absl::Status Attempt(FaultCatcher& catcher, size_t step, const std::vector<Bytes>& before, const Fillings& fillings);
  // Returns the contents of what the Step writes, by touch; with `kept`, only where it may use what was there.
  std::vector<Bytes> Contents(size_t step, bool kept) const;
  // Explains why the results of a Step differ.
  std::string Explain(FaultCatcher& catcher, size_t step, const std::vector<Bytes>& before,
                      const std::vector<Bytes>& first, const std::vector<Bytes>& second);
  std::string Describe(size_t step, const Fault& fault) const;
  // Names the buffer and what became of it, for a Step that does not declare it.
  std::string DescribeForeign(size_t step, const GuardedBlock& block) const;
  std::string NameOf(size_t step, const GuardedBlock& block, bool writes) const;

  GuardedMemory memory_;
  std::vector<std::vector<Touch>> touches_;  // indexed by Step
  std::atomic<int32_t> running_{-1};
};

// Makes a plan in which every buffer has its own memory pages, with guard pages around them that nothing may touch. The
// CheckExecutor runs on it. Lowers `compiled` anew, in its order, on one stream. What its plan writes in place stays in
// place, on the same pages. A buffer ends where its last page does, as far as the alignment of 64 bytes allows.
absl::Status PadPlan(Compiled& compiled);
// Pads the plan of Variables, which several programs may share.
memory::Plan PadState(const memory::Problem& problem);

}  // namespace snug::core
