// Fine-tuning: a session starts from the tensors of a file that fit, and says which did.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "engine/run/session.h"
#include "engine/train/checkpoint/file_system.h"

namespace snug::checkpoint {

struct InitReport {
  struct Left {
    std::string name, why;
  };
  std::vector<std::string> loaded;
  std::vector<Left> not_loaded;        // tensors of the file
  std::vector<std::string> untouched;  // parameters and statistics that keep what they had
  std::vector<std::string> unused;     // patterns that matched no tensor

  std::string ToString() const;  // lines for a log
};

// Loads the parameters and statistics that `patterns` (name_patterns.h) include and that the network has, of the same
// shape; floating-point types are converted. All or nothing: an error changes nothing. That no tensor at all fits is an
// error.
absl::StatusOr<InitReport> InitFrom(Session& session, FileSystem& files, const std::string& path,
                                    const std::vector<std::string>& patterns);

}  // namespace snug::checkpoint
