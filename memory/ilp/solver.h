// Solves integer linear programs by CBC, where it was found when Snug was built.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "memory/ilp/model.h"

namespace snug::core::memory {

struct IlpProgress {
  double objective = IlpModel::kInfinity;  // the cost of the best solution so far; infinity: there is none yet
  double bound = -IlpModel::kInfinity;     // no solution has less
  // The solution when the objective is new, else empty. NaN stands for a variable that the solver has eliminated.
  absl::Span<const double> values;
};

// There is no time limit: solvers look at the clock too seldom to keep one. child.h does it instead.
struct IlpOptions {
  int64_t work = 0;           // iterations of the simplex method, dearer with many rows; 0: no limit
  double step = 0;            // when > 0, the objectives of two solutions differ by at least this, so a better one is
                              // better by a step
  std::vector<double> start;  // a feasible solution to start from; empty: none
  std::function<void(const IlpProgress&)> on_progress;  // called at each better solution or bound, on the calling
                                                        // thread
};

enum class IlpStatus {
  kOptimal,     // `values` is a best solution
  kStopped,     // the limit stopped it; `values` is the best so far, or empty
  kInfeasible,  // there is no solution
};

struct IlpResult {
  IlpStatus status = IlpStatus::kStopped;
  std::vector<double> values;  // integers are exact; empty: no solution was found
  double objective = IlpModel::kInfinity;
  double bound = -IlpModel::kInfinity;
  int64_t work = 0;
};

// Returns the names of the solvers in this build: "cbc", or nothing.
std::vector<absl::string_view> IlpSolvers();

// Fails with FailedPrecondition where this build has none.
absl::Status CheckIlpSolver();

absl::StatusOr<IlpResult> SolveIlp(const IlpModel& model, const IlpOptions& options);

// The solver CBC, COIN-OR's branch and cut. It is defined only where CMake found the library (SNUG_HAS_CBC).
absl::StatusOr<IlpResult> SolveByCbc(const IlpModel& model, const IlpOptions& options);

}  // namespace snug::core::memory
