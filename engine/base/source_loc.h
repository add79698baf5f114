// Where in a model file something was written. Nodes keep it, gradient nodes inherit it.
#pragma once

#include <memory>
#include <string>

namespace snug {

struct SourceLoc {
  std::shared_ptr<const std::string> file;  // shared by all that came from it
  int line = 0;                             // from 1; 0: unknown
  int column = 0;

  // "models/mlp.pbtxt:4:9"; the file alone, or "", when nothing more is known.
  std::string ToString() const;
};

}  // namespace snug
