// Says where in a model file something was written. Nodes keep it, and gradient nodes inherit it.
#pragma once

#include <absl/status/status.h>

#include <memory>
#include <string>

namespace snug::core {

struct SourceLoc {
  std::shared_ptr<const std::string> file;  // shared by all places in that file
  int line = 0;                             // counts from 1; 0: unknown
  int column = 0;
  std::shared_ptr<const std::string> trace;  // "in block "bottleneck" used at models/x.pbtxt:40:3"; null when it is not
                                             // from a block

  // Returns "models/mlp.pbtxt:4:9"; only the file, or "", when nothing more is known.
  std::string ToString() const;
};

// Returns the same error with the place before its message and the trace, if any, in parentheses after it. OK stays OK.
absl::Status At(const SourceLoc& loc, const absl::Status& status);

}  // namespace snug::core
