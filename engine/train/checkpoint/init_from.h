// Fine-tuning: a session starts from those tensors of a file that fit, and reports which did.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "engine/run/session/session.h"
#include "engine/train/checkpoint/file_system.h"

namespace snug::core::checkpoint {

struct InitReport {
  struct Left {
    std::string name, why;
  };
  std::vector<std::string> loaded;
  std::vector<Left> not_loaded;        // tensors of the file, and why
  std::vector<std::string> untouched;  // parameters and statistics that keep their content
  std::vector<std::string> unused;     // patterns that matched no tensor

  std::string ToString() const;  // lines for a log
};

// Loads the parameters and statistics that `patterns` (name_patterns.h) include and that the network has with the same
// shape; floating-point types are converted. An error changes nothing. It is an error if no tensor fits at all.
absl::StatusOr<InitReport> InitFrom(Session& session, FileSystem& files, const std::string& path,
                                    const std::vector<std::string>& patterns);

}  // namespace snug::core::checkpoint
