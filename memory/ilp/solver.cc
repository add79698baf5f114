#include "memory/ilp/solver.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "memory/ilp/cbc.h"
#include "memory/ilp/highs.h"

namespace snug::memory {
namespace {

struct Solver {
  absl::string_view name;
  absl::StatusOr<IlpResult> (*solve)(const IlpModel&, const IlpOptions&);
};

std::vector<Solver> Solvers() {
  std::vector<Solver> solvers;
#ifdef SNUG_HAS_HIGHS
  solvers.push_back({"highs", SolveByHighs});
#endif
#ifdef SNUG_HAS_CBC
  solvers.push_back({"cbc", SolveByCbc});
#endif
  return solvers;
}

absl::StatusOr<Solver> Find(absl::string_view name) {
  const std::vector<Solver> solvers = Solvers();
  const auto found = std::find_if(solvers.begin(), solvers.end(),
                                  [&](const Solver& solver) { return name.empty() || solver.name == name; });
  if (found != solvers.end()) return *found;
  if (solvers.empty()) {
    return absl::FailedPreconditionError(
        "this build has no solver of integer linear programs: build it where CBC is installed (Debian: "
        "coinor-libcbc-dev)");
  }
  std::string names;
  for (const Solver& solver : solvers) absl::StrAppend(&names, names.empty() ? "" : ", ", solver.name);
  return absl::FailedPreconditionError(
      absl::StrCat("this build has no solver \"", name, "\" of integer linear programs; it has ", names));
}

}  // namespace

std::vector<absl::string_view> IlpSolvers() {
  std::vector<absl::string_view> names;
  for (const Solver& solver : Solvers()) names.push_back(solver.name);
  return names;
}

absl::Status CheckIlpSolver(absl::string_view name) { return Find(name).status(); }

absl::StatusOr<IlpResult> SolveIlp(const IlpModel& model, const IlpOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const Solver solver, Find(options.solver));
  absl::StatusOr<IlpResult> result = solver.solve(model, options);
  if (!result.ok() || result->values.empty()) return result;
  for (size_t i = 0; i < result->values.size(); ++i) {
    if (model.integer()[i]) result->values[i] = std::round(result->values[i]);
  }
  return result;
}

}  // namespace snug::memory
