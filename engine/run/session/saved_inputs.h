// Keeps the bytes that were fed to a session, to feed them again: a step consumes its inputs.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/run/session/session.h"

namespace snug::core {

class SavedInputs {
 public:
  // Copies what the session's inputs hold now. The session must outlive this.
  explicit SavedInputs(Session& session);
  void Feed();

 private:
  Session& session_;
  std::vector<std::vector<std::byte>> bytes_;  // indexed by input
};

}  // namespace snug::core
