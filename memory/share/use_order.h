// Which buffer is done with before another begins: by positions in an order, or in a partial order, where neither may
// be the case though the two are not in use at the same time in every schedule.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "memory/partial_problem.h"
#include "memory/problem.h"

namespace snug::memory {

class UseOrder {
 public:
  static UseOrder Serial(const Problem& problem);
  // n x n bits. `problem` has no views.
  static absl::StatusOr<UseOrder> Partial(const PartialProblem& problem);

  size_t size() const { return begin_.size(); }
  // All uses of `a` come before all uses of `b`.
  bool Before(size_t a, size_t b) const {
    return before_.empty() ? end_[a] < begin_[b] : before_[a * begin_.size() + b];
  }
  bool SameKind(size_t a, size_t b) const { return kind_[a] == kind_[b]; }
  int32_t kind(size_t a) const { return kind_[a]; }
  bool Interfere(size_t a, size_t b) const { return SameKind(a, b) && !Before(a, b) && !Before(b, a); }
  // With how many others each interferes.
  std::vector<int32_t> Interferences() const;

  // How far apart two are of which `a` is before `b`: positions, or levels of the partial order.
  int64_t Hops(size_t a, size_t b) const { return int64_t{begin_[b]} - end_[a]; }
  int64_t longest() const { return longest_; }  // no two are further apart

 private:
  // Positions; or levels (tasks on the longest path up to a task), of the last head and of the first tail.
  std::vector<int32_t> begin_, end_;
  std::vector<int32_t> kind_;
  std::vector<bool> before_;  // empty: by positions
  int64_t longest_ = 0;
};

}  // namespace snug::memory
