#include "engine/train/within_step.h"

#include <cstring>

#include "engine/base/status.h"
#include "engine/compile/import/import.h"

namespace snug::core {

absl::Status SetDraw(Session& session, int64_t part, int64_t parts) {
  const absl::StatusOr<Session::View> draw = session.FindVariable(kDrawStateName, HostAccess::kWrite);
  if (!draw.ok()) return absl::OkStatus();
  SNUG_ASSIGN_OR_RETURN(const Session::View random, session.FindVariable(kRandomStateName, HostAccess::kRead));
  const auto* const state = reinterpret_cast<const int64_t*>(random.data);  // {seed, step}
  auto* const numbers = reinterpret_cast<int64_t*>(draw->data);
  numbers[0] = state[0];
  numbers[1] = state[1] * parts + part;
  return absl::OkStatus();
}

void ClearSums(Session& session) {
  for (size_t i = 0; i < session.programs(); ++i) {
    for (const Variable& variable : session.program(i).compiled().graph.variables()) {
      if (variable.role != VariableRole::kWithinStep) continue;
      const absl::StatusOr<Session::View> view = session.FindVariable(variable.name);
      if (view.ok()) std::memset(view->data, 0, static_cast<size_t>(view->type->size_bytes()));
    }
  }
}

}  // namespace snug::core
