// Solvers of integer linear programs: one function over whichever libraries were found when Snug was built.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "memory/ilp/model.h"

namespace snug::memory {

struct IlpProgress {
  double seconds = 0;
  double objective = IlpModel::kInfinity;  // of the best solution so far; infinity: none yet
  double bound = -IlpModel::kInfinity;     // no solution has less
};

struct IlpOptions {
  absl::string_view solver;   // a name of IlpSolvers(); empty: the first of them
  double seconds = 0;         // 0: no limit
  int64_t work = 0;           // iterations of the simplex method, dearer with many rows; 0: no limit
  double step = 0;            // > 0: objectives of solutions lie this far apart at least, so better means by a step
  std::vector<double> start;  // a feasible solution to start from; empty: none
  std::function<void(const IlpProgress&)> on_progress;  // at each better solution or bound, on the calling thread
};

enum class IlpStatus {
  kOptimal,     // `values` is a best solution
  kStopped,     // by a limit; `values` is the best so far, or empty
  kInfeasible,  // there is no solution
};

struct IlpResult {
  IlpStatus status = IlpStatus::kStopped;
  bool clock_stopped = false;
  std::vector<double> values;  // integers exactly so; empty: none found
  double objective = IlpModel::kInfinity;
  double bound = -IlpModel::kInfinity;
  int64_t work = 0;
};

// The names of the solvers that this build has, best first; empty where none was found.
std::vector<absl::string_view> IlpSolvers();

// FailedPrecondition where this build has no such solver.
absl::StatusOr<IlpResult> SolveIlp(const IlpModel& model, const IlpOptions& options);

}  // namespace snug::memory
