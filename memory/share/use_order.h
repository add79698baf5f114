// Knows which buffer is done before another begins. In a serial order one of two that do not interfere always is; in a
// partial order it must hold in every schedule.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "memory/partial_problem.h"
#include "memory/problem.h"

namespace snug::core::memory {

class UseOrder {
 public:
  static UseOrder Serial(const Problem& problem);
  // Takes n x n bits. `problem` must have no views.
  static absl::StatusOr<UseOrder> Partial(const PartialProblem& problem);

  size_t size() const { return begin_.size(); }
  // Tells whether all uses of `a` come before all uses of `b`.
  bool Before(size_t a, size_t b) const {
    return before_.empty() ? end_[a] < begin_[b] : before_[a * begin_.size() + b];
  }
  bool SameKind(size_t a, size_t b) const { return kind_[a] == kind_[b]; }
  int32_t kind(size_t a) const { return kind_[a]; }
  bool Interfere(size_t a, size_t b) const { return SameKind(a, b) && !Before(a, b) && !Before(b, a); }
  // Returns for each buffer with how many others it interferes.
  std::vector<int32_t> Interferences() const;

  // Returns how far apart two buffers are, `a` being before `b`: in positions, or in levels of the partial order.
  int64_t Hops(size_t a, size_t b) const { return int64_t{begin_[b]} - end_[a]; }
  int64_t longest() const { return longest_; }  // no two are further apart

 private:
  // In a serial order these are positions. In a partial order they are the levels of the last head and of the first
  // tail; a task's level is its number on the longest path to it.
  std::vector<int32_t> begin_, end_;
  std::vector<int32_t> kind_;
  std::vector<bool> before_;  // empty in a serial order, where positions say it
  int64_t longest_ = 0;
};

}  // namespace snug::core::memory
