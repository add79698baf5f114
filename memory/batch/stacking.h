// Which buffers of a plan rest on which. From that alone follow offsets for the same buffers with any other sizes: each
// lies as low as those beneath it allow.
//
// Two buffers that are live at once keep their sides for ever: the one that is lower stays lower. So the offsets are
// right for whatever sizes, rounded up to the alignment or not, growing by steps, or 0. The arena is as high as the
// highest pile of buffers that rest on each other; where sizes are straight lines over the batch, it is the highest of
// some straight lines.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/problem.h"

namespace snug::core::memory {

class Stacking {
 public:
  // `plan` must be legal for `problem`, in which every buffer has at least a byte: otherwise nobody could tell what
  // rests on it. Buffers with a fixed offset have no place in a stacking. An output that lies where its input does,
  // as the problem allows, stays there: sizes to come must leave it no larger. O(n log n) for n buffers.
  static absl::StatusOr<Stacking> Of(const Problem& problem, const Plan& plan);

  // `sizes` has one for each buffer. O(n).
  Plan PlanFor(absl::Span<const int64_t> sizes) const;

  size_t buffers() const { return chain_of_.size(); }

 private:
  std::vector<int32_t> chain_of_;  // by buffer: those that are written over each other are one chain
  // By chain; what it rests on has smaller numbers.
  std::vector<int64_t> alignment_;
  std::vector<size_t> begin_;  // has chains + 1 entries: where in `beneath_` the buffers are on which the chain rests
  std::vector<int32_t> beneath_;
};

}  // namespace snug::core::memory
