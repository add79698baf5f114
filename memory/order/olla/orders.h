// OLLA's programs for orders, run as stages of an anytime search.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memory/ilp/budget.h"
#include "memory/order/olla/order_program.h"
#include "memory/planner.h"

namespace snug::core::memory {

// Runs in turn the program whose answer is exact, and the one with early updates where that is asked for or where the
// exact one is beyond the solver.
class OllaOrders {
 public:
  // `note` is told how far each program came, by its number. The options must outlive this.
  OllaOrders(const Tasks& tasks, const TaskOrder& start, const OllaOptions& olla,
             std::function<void(int32_t program, const std::string& how_far)> note);

  int32_t count() const { return static_cast<int32_t>(programs_.size()); }

  // Makes one attempt at each open program, with the round's slice for each of its stages.
  absl::Status Run(int round, const OllaOrderProgram::Host& host, IlpBudget* budget);

  bool Finished(int64_t bound) const;

 private:
  struct Program {
    std::string what;
    std::unique_ptr<OllaOrderProgram> program;  // null when it was left out
  };

  void Note(size_t program, const std::string& how_far) const;
  void Add(const Tasks& tasks, const TaskOrder& start, bool early_updates, const OllaOptions& olla);

  std::function<void(int32_t program, const std::string& how_far)> note_;
  std::vector<Program> programs_;
};

// Finds orders by integer linear programming: OLLA. The switches are in memory/olla_options.h. memory/place/olla.h
// finds offsets, and memory/olla.cc both together.
//
// The peak is never above that of options.olla.start, and with fast_start never above that of OrderBest. It stops at
// work_limit iterations of the simplex method or at time_limit (ilp/anytime.h). The lower bound holds for all legal
// orders; the report's notes say for each program how far it came, or why it was left out. In-place pairs are ignored.
absl::StatusOr<Ordering> OrderOlla(const Tasks& tasks, const PlannerOptions& options);

}  // namespace snug::core::memory
