// A search by integer programming, anytime: the curve of what it has found, and what it may still spend.
#pragma once

#include <chrono>
#include <cstdint>

#include "memory/ilp/solver.h"
#include "memory/planner.h"

namespace snug::memory {

class IlpSearch {
 public:
  // With neither a work limit nor a time limit: some ten seconds, the same plan everywhere. The authors gave each
  // program five minutes of a faster solver.
  static constexpr int64_t kDefaultWork = 500'000;

  explicit IlpSearch(const PlannerOptions& options);

  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  // A new best total or bound, if it is one.
  void Improve(int64_t total);
  void Tighten(int64_t lower_bound);

  // The limits of the next program, which gets this part of what is left of the time.
  IlpOptions Limits(double part) const;
  void Spend(const IlpResult& result);

  // Of an answer of `total` bytes: proven if that is the bound.
  SearchReport Report(int64_t total) const;

  int64_t lower_bound() const { return report_.lower_bound; }

 private:
  using Clock = std::chrono::steady_clock;
  void Record();

  Clock::time_point start_ = Clock::now();
  double seconds_ = 0;  // 0: no limit
  int64_t work_ = 0;    // 0: no limit
  int64_t total_ = -1;
  SearchReport report_;
};

}  // namespace snug::memory
