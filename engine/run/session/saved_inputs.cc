#include "engine/run/session/saved_inputs.h"

#include <algorithm>

#include "engine/base/status.h"

namespace snug::core {
namespace {

Session::View InputAt(Session& session, size_t i) {
  absl::StatusOr<Session::View> view = session.Input(session.compiled().executable.inputs[i].name);
  SNUG_CHECK_OK(view.status());
  return *view;
}

}  // namespace

SavedInputs::SavedInputs(Session& session) : session_(session), bytes_(session.compiled().executable.inputs.size()) {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    const Session::View view = InputAt(session, i);
    bytes_[i].assign(view.data, view.data + view.type->size_bytes());
  }
}

void SavedInputs::Feed() {
  if (session_.compiled().keep_inputs) return;  // they are still there
  for (size_t i = 0; i < bytes_.size(); ++i) std::copy(bytes_[i].begin(), bytes_[i].end(), InputAt(session_, i).data);
}

}  // namespace snug::core
