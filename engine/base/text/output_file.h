// Writes a file that appears whole or not at all: the text goes to a temporary file beside it, which takes its place
// when all is there. Where the file system has files without names, it is one of these, so that nothing is left of it
// whatever ends the program.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdio>
#include <memory>
#include <string>

namespace snug::core {

class OutputFile {
 public:
  // Fails when the file cannot be written, or when its name belongs to something that is no file. A link stays a link:
  // the file that it leads to is written.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& given);
  // Removes temporary files that killed programs left behind where these have names. Nobody else may be writing a file
  // of that name.
  static void RemoveLeftovers(const std::string& path);
  // Removes the temporary file unless Finish was called.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Errors are kept for Finish.
  void Write(absl::string_view text);
  // Must be the last call.
  absl::Status Finish();

  const std::string& path() const { return path_; }

 private:
  OutputFile(std::string path, std::string temporary, std::FILE* file, bool named)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(file), named_(named) {}

  const std::string path_, temporary_;
  std::FILE* file_;  // null once it is finished
  bool named_;       // whether it is called `temporary_` already
  int error_ = 0;    // the first error of a write
};

}  // namespace snug::core
