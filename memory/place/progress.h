// What every placer in this folder keeps while it improves an answer: the best offsets of each part of the Problem, and
// how it came to them.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/place/instance.h"
#include "memory/place/list_placer.h"
#include "memory/planner.h"

namespace snug::core::memory {

class Progress {
 public:
  // Decomposes the problem. Both arguments must outlive this.
  Progress(const Problem& problem, const PlannerOptions& options);

  const std::vector<Instance>& parts() const { return parts_; }
  // Returns the highest end of the best offsets known for the part, base included.
  int64_t total(size_t part) const { return totals_[part]; }
  int64_t bound(size_t part) const { return bounds_[part]; }
  const std::vector<int64_t>& offsets(size_t part) const { return best_[part]; }
  // Returns which of the part's items are live together. They are found once while one part is asked for: there may be
  // many millions, so those of other parts are not kept.
  std::shared_ptr<const Conflicts> conflicts(size_t part);
  // Returns the part that decides the total.
  size_t Worst() const;
  // A lower total is no better: the largest bound, or the capacity if that is larger.
  int64_t target() const { return target_; }

  // Tells whether every part has offsets and the worst one cannot get lower, `target` is reached, or time is up.
  bool Done() const;
  bool TimeIsUp() const;

  // Takes offsets of the part's items, without base; they are kept if they are better than what is known.
  void Offer(size_t part, int64_t total, const std::vector<int64_t>& offsets);
  // Tells that the part needs at least this much, base included.
  void RaiseBound(size_t part, int64_t bound);
  void AddWork(int64_t work) { report_.work += work; }

  Placement Finish();

 private:
  double Seconds() const;
  void Note();

  const Problem& problem_;
  const PlannerOptions& options_;
  std::chrono::steady_clock::time_point start_;
  std::vector<int64_t> settled_;  // offsets that no placer needs to find
  std::vector<Instance> parts_;
  size_t part_of_conflicts_ = 0;
  std::shared_ptr<const Conflicts> conflicts_;  // of that part; null: nobody asked
  std::vector<std::vector<int64_t>> best_;
  std::vector<int64_t> totals_, bounds_;
  int64_t settled_total_ = 0;
  int64_t target_ = 0;
  int missing_ = 0;  // how many parts have no offsets yet
  SearchReport report_;
};

}  // namespace snug::core::memory
