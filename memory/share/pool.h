// The memory note's counter simulation (MXNet): walk through the order, take a block for each output from the pool of
// blocks that nobody needs any more, or open one; give a block back when its buffer has been read for the last time.
//
// As in MXNet: a task's outputs get their blocks before its inputs give theirs back, the largest output first; from the
// pool, blocks in [size / R, size x R] (R: options.match_range), the smallest that fits, else the largest that does
// not, which grows; of equal ones the one given back last. R = 0 shares nothing; R < 0 tries 1, 2, 4, ... and keeps the
// best.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "memory/planner.h"

namespace snug::memory {

absl::StatusOr<Placement> PlaceInPlace(const Problem& problem, const PlannerOptions& options);  // in place, no pool
absl::StatusOr<Placement> PlaceShare(const Problem& problem, const PlannerOptions& options);    // pool, not in place
absl::StatusOr<Placement> PlaceBoth(const Problem& problem, const PlannerOptions& options);

// Buffers by the moment at which they need a block, the largest first; and by the moment at which they are done.
struct Timeline {
  explicit Timeline(const Problem& problem);
  std::vector<int32_t> begins, ends;
};

// The blocks that MXNet keeps for later use.
class SharedBlocks {
 public:
  // The block for `size_bytes`: the first in range, in the sequence above, that `suits`. -1: there is none. It grows
  // where it is smaller.
  int32_t Take(int64_t size_bytes, int match_range, const std::function<bool(int32_t block)>& suits);
  int32_t Open(int64_t size_bytes);
  void GiveBack(int32_t block);

 private:
  struct Free {
    int64_t size_bytes;
    int64_t given_back;  // a counter
    int32_t block;
    bool operator<(const Free& other) const {  // of one size, the last to be given back first
      return size_bytes != other.size_bytes ? size_bytes < other.size_bytes : given_back > other.given_back;
    }
  };
  std::vector<int64_t> size_of_;
  std::set<Free> free_;
  int64_t given_back_ = 0;
};

}  // namespace snug::memory
