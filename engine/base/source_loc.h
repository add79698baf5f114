// Where in a model file something was written. Nodes keep it, gradient nodes inherit it.
#pragma once

#include <absl/status/status.h>

#include <memory>
#include <string>

namespace snug {

struct SourceLoc {
  std::shared_ptr<const std::string> file;  // shared by all that came from it
  int line = 0;                             // from 1; 0: unknown
  int column = 0;
  std::shared_ptr<const std::string> trace;  // "in block "bottleneck" used at models/x.pbtxt:40:3"; null: not expanded

  // "models/mlp.pbtxt:4:9"; the file alone, or "", when nothing more is known.
  std::string ToString() const;
};

// The same code; the place before the message, the trace (if any) in parentheses after it. OK stays OK.
absl::Status At(const SourceLoc& loc, const absl::Status& status);

}  // namespace snug
