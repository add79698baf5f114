#include "memory/ilp/solver.h"

#include <cmath>
#include <vector>

#include "engine/base/status.h"

namespace snug::core::memory {

std::vector<absl::string_view> IlpSolvers() {
#ifdef SNUG_HAS_CBC
  return {"cbc"};
#else
  return {};
#endif
}

absl::Status CheckIlpSolver() {
  if (!IlpSolvers().empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this build has no solver of integer linear programs: build it where CBC is installed (Debian: "
      "coinor-libcbc-dev)");
}

absl::StatusOr<IlpResult> SolveIlp(const IlpModel& model, const IlpOptions& options) {
  SNUG_RETURN_IF_ERROR(CheckIlpSolver());
#ifdef SNUG_HAS_CBC
  SNUG_ASSIGN_OR_RETURN(IlpResult result, SolveByCbc(model, options));
#else
  (void)model, (void)options;
  IlpResult result;
#endif
  for (size_t i = 0; i < result.values.size(); ++i) {
    if (model.integer()[i]) result.values[i] = std::round(result.values[i]);
  }
  return result;
}

}  // namespace snug::core::memory
