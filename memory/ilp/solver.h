// The solver of integer linear programs: CBC, where it was found when Snug was built.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "memory/ilp/model.h"

namespace snug::memory {

struct IlpProgress {
  double objective = IlpModel::kInfinity;  // of the best solution so far; infinity: none yet
  double bound = -IlpModel::kInfinity;     // no solution has less
  // The solution, where the objective is new; else empty. NaN: the solver has done away with that variable.
  absl::Span<const double> values;
};

// There is no limit by the clock: a solver asks for the time too seldom to keep one (child.h does).
struct IlpOptions {
  int64_t work = 0;           // iterations of the simplex method, dearer with many rows; 0: no limit
  double step = 0;            // > 0: objectives of solutions lie this far apart at least, so better means by a step
  std::vector<double> start;  // a feasible solution to start from; empty: none
  std::function<void(const IlpProgress&)> on_progress;  // at each better solution or bound, on the calling thread
};

enum class IlpStatus {
  kOptimal,     // `values` is a best solution
  kStopped,     // by the limit; `values` is the best so far, or empty
  kInfeasible,  // there is no solution
};

struct IlpResult {
  IlpStatus status = IlpStatus::kStopped;
  std::vector<double> values;  // integers exactly so; empty: none found
  double objective = IlpModel::kInfinity;
  double bound = -IlpModel::kInfinity;
  int64_t work = 0;
};

// The names of the solvers that this build has: "cbc", or none.
std::vector<absl::string_view> IlpSolvers();

// FailedPrecondition where this build has none.
absl::Status CheckIlpSolver();

absl::StatusOr<IlpResult> SolveIlp(const IlpModel& model, const IlpOptions& options);

}  // namespace snug::memory
