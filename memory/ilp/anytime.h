// An anytime search tells what it finds as it goes; when time is up, the best finding is the answer.
//
// The findings come in one sequence that does not depend on the clock; a limit only cuts it off. So an answer after
// more time, or more work, is never a worse one.
#pragma once

#include <absl/status/status.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "memory/planner.h"

namespace snug::core::memory {

// One thing that a search has found. A member that is left at its default says nothing.
struct Finding {
  int64_t total = -1;            // the bytes of the answer that these two hold:
  TaskOrder order;               // its order; empty where only offsets are looked for
  std::vector<int64_t> offsets;  // its offsets; empty where only an order is looked for
  int64_t peak_bound = 0;        // no order has a lower peak
  int64_t bound = 0;             // no answer has a lower total
  int64_t work = 0;              // the work spent so far
  int32_t line = -1;             // the line of the report's notes that `note` replaces; -1: none
  std::string note;              // the new text of that line
};

class Anytime {
 public:
  using Emit = std::function<void(const Finding&)>;

  // Starts the clock. Of the options only time_limit is used.
  explicit Anytime(const PlannerOptions& options) : seconds_(options.time_limit) {}

  void Take(const Finding& finding);

  // Takes what `search` emits, until it returns or time is up. With a time limit the search runs in a process of its
  // own (child.h), so that nothing in it has to look at a clock; what it changes in memory is then lost. It should
  // start no threads there, because thread sanitizers do not follow threads of a fork.
  absl::Status Run(const std::function<absl::Status(const Emit&)>& search);

  // The options for what runs in `search`: they ask for no threads where it should start none.
  static PlannerOptions Within(PlannerOptions options) {
    if (options.time_limit > 0) options.threads = 1;
    return options;
  }

  const Finding& best() const { return best_; }
  int64_t peak_bound() const { return peak_bound_; }
  // The bounds in it are bounds of totals.
  SearchReport Report() const;

 private:
  // Tells that the search ended early. That is an error only where there is no answer yet.
  absl::Status EndEarly(const absl::Status& why);
  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double seconds_;
  Finding best_;
  int64_t peak_bound_ = 0;
  SearchReport report_;
};

}  // namespace snug::core::memory
