// The bytes that were fed to a session, to be fed again: a step consumes its inputs.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/run/session.h"

namespace snug {

class SavedInputs {
 public:
  // Copies what the session's inputs hold now. The session must outlive it.
  explicit SavedInputs(Session& session);
  void Feed();

 private:
  Session& session_;
  std::vector<std::vector<std::byte>> bytes_;  // by input
};

}  // namespace snug
