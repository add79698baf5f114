// Says what a search by integer programming may spend, and in which portions. Each attempt at a program starts anew
// with eight times the work of the last one, so that no program keeps the others from being tried and little is done
// twice.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "memory/planner.h"

namespace snug::core::memory {

class IlpBudget {
 public:
  // The work when there is neither a work limit nor a time limit: it takes some ten seconds and gives the same plan
  // everywhere. The authors gave each program five minutes of a faster solver.
  static constexpr int64_t kDefaultWork = 500'000;

  explicit IlpBudget(const PlannerOptions& options)
      : limit_(options.work_limit > 0   ? options.work_limit
               : options.time_limit > 0 ? std::numeric_limits<int64_t>::max()
                                        : kDefaultWork) {}

  void Spend(int64_t work) { spent_ += std::max<int64_t>(1, work); }
  int64_t spent() const { return spent_; }
  int64_t left() const { return std::max<int64_t>(0, limit_ - spent_); }

  // Returns the work for the next program in this round of attempts.
  int64_t Slice(int round) const {
    constexpr int kLastGrowth = 12;
    return std::min(left(), kFirstSlice << (3 * std::min(round, kLastGrowth)));
  }

 private:
  static constexpr int64_t kFirstSlice = 20'000;

  int64_t limit_;
  int64_t spent_ = 0;
};

}  // namespace snug::core::memory
