// A file or standard output, for PredictionWriters.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/base/text/output_file.h"

namespace snug::core::cli {

class PredictionSink {
 public:
  // An empty path is standard output. It is an error if it is one of the files that are read.
  static absl::StatusOr<std::unique_ptr<PredictionSink>> Open(const std::string& path,
                                                              const std::vector<std::string>& read);

  void Write(absl::string_view bytes);
  absl::Status Check() const;  // of standard output; a file tells at its end
  absl::Status Finish();
  const std::string& path() const { return path_; }

 private:
  PredictionSink() = default;

  std::string path_;
  std::unique_ptr<OutputFile> file_;  // null: standard output
};

}  // namespace snug::core::cli
