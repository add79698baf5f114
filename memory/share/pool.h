// The memory note's counter simulation (MXNet). It walks through the order. Each output takes a block that nobody needs
// any more from the pool, or a new one; each buffer gives its block back when it was read for the last time.
//
// As in MXNet, a task's outputs get their blocks before its inputs give theirs back, the largest output first. A block
// from the pool must be in [size / R, size x R] (R: options.match_range): the smallest that fits is taken, else the
// largest that does not, which grows; of equal ones the one given back last. R = 0 shares nothing; R < 0 tries 1, 2, 4,
// ... and keeps the best.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "memory/planner.h"

namespace snug::core::memory {

absl::StatusOr<Placement> PlaceInPlace(const Problem& problem, const PlannerOptions& options);  // in place, no pool
absl::StatusOr<Placement> PlaceShare(const Problem& problem, const PlannerOptions& options);    // pool, not in place
absl::StatusOr<Placement> PlaceBoth(const Problem& problem, const PlannerOptions& options);

// `begins` has the buffers by the moment at which they need a block, the largest first; `ends` by the moment at which
// they are done.
struct Timeline {
  explicit Timeline(const Problem& problem);
  std::vector<int32_t> begins, ends;
};

// The blocks that MXNet keeps for later use.
class SharedBlocks {
 public:
  // Returns a block for `size_bytes`, or -1: the first in range for which `suits` is true, in the sequence described
  // above. A block that is smaller grows.
  int32_t Take(int64_t size_bytes, int match_range, const std::function<bool(int32_t block)>& suits);
  int32_t Open(int64_t size_bytes);
  void GiveBack(int32_t block);

 private:
  struct Free {
    int64_t size_bytes;
    int64_t given_back;  // the value of a counter when it was given back
    int32_t block;
    bool operator<(const Free& other) const {  // of equal sizes the one given back last comes first
      return size_bytes != other.size_bytes ? size_bytes < other.size_bytes : given_back > other.given_back;
    }
  };
  std::vector<int64_t> size_of_;
  std::set<Free> free_;
  int64_t given_back_ = 0;
};

}  // namespace snug::core::memory
