// A file that appears whole or not at all: what is written goes to a file beside it, which takes its place when all is
// there.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdio>
#include <memory>
#include <string>

namespace snug {

class OutputFile {
 public:
  // Fails where the file cannot be written, or something else than a file has its name. A link stays: what it leads to
  // is written.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& given);
  // Removes what a killed program left that was writing a file of that name. For where nobody else writes it now.
  static void RemoveLeftovers(const std::string& path);
  // Without Finish, nothing is left.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Failures show in Finish.
  void Write(absl::string_view text);
  // Nothing is written after it.
  absl::Status Finish();

  const std::string& path() const { return path_; }

 private:
  OutputFile(std::string path, std::string temporary, std::FILE* file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}

  const std::string path_, temporary_;
  std::FILE* file_;  // null: finished
  int error_ = 0;    // of the first write that failed
};

}  // namespace snug
