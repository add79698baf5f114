// An anytime search: it says what it finds as it goes, and when time is up the best of that is the answer.
//
// What is found does not depend on the clock: it is one sequence of findings, which a limit only cuts off. So an answer
// after more time, or more work, is never a worse one.
#pragma once

#include <absl/status/status.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "memory/planner.h"

namespace snug::memory {

// One thing that a search has found. What is left at its default is not said.
struct Finding {
  int64_t total = -1;            // of an answer, which is:
  TaskOrder order;               // an order, or none where only offsets are looked for
  std::vector<int64_t> offsets;  // offsets, or none where only an order is
  int64_t peak_bound = 0;        // no order has a lower peak
  int64_t bound = 0;             // no answer has a lower total
  int64_t work = 0;              // spent by now
  int32_t line = -1;             // of the report's notes
  std::string note;              // what stands there from now on
};

class Anytime {
 public:
  using Emit = std::function<void(const Finding&)>;

  // The clock starts here. Of the options: time_limit.
  explicit Anytime(const PlannerOptions& options) : seconds_(options.time_limit) {}

  void Take(const Finding& finding);

  // Takes what `search` emits, until it returns or time is up. With a time limit it runs in a process of its own
  // (child.h), so that nothing in it has to look at a clock; what it changes in memory is lost then. It should start no
  // threads there: thread sanitizers do not follow those of a fork.
  absl::Status Run(const std::function<absl::Status(const Emit&)>& search);

  // The options for what runs in `search`: with no more threads than it should have.
  static PlannerOptions Within(PlannerOptions options) {
    if (options.time_limit > 0) options.threads = 1;
    return options;
  }

  const Finding& best() const { return best_; }
  int64_t peak_bound() const { return peak_bound_; }
  // Bounds of totals.
  SearchReport Report() const;

 private:
  // The search did not come to its end: an error only where there is no answer yet.
  absl::Status EndEarly(const absl::Status& why);
  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double seconds_;
  Finding best_;
  int64_t peak_bound_ = 0;
  SearchReport report_;
};

}  // namespace snug::memory
