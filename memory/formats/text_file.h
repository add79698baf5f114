// Reads text files of records, gzipped or not: the whole file first, then line by line in fields, with errors that name
// file and line.
//
//   SNUG_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
//   TextLines lines(path, text);
//   while (lines.Next()) {
//     if (lines.fields()[0] == "node") {
//       SNUG_ASSIGN_OR_RETURN(const int64_t id, lines.Integer(1, "a node id", 0));
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace snug::core::memory {

constexpr int64_t kMaxSumOfSizes = int64_t{1} << 61;  // keeps every sum of what a file holds within 64 bits

// Returns the file's text, unpacked if its content (not its name) shows that it is gzipped. The unpacked text may have
// at most `max_bytes`.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes = int64_t{1} << 30);

// Writes the whole file or leaves the old one.
absl::Status WriteTextFile(const std::string& path, absl::string_view text);

class TextLines {
 public:
  // Both arguments must outlive this; `path` only appears in messages. A byte order mark is skipped.
  TextLines(absl::string_view path, absl::string_view text);

  // Goes to the next line that is neither empty nor a comment (`#`); returns false at the end. Fields are split at
  // `separator`; ' ' stands for any run of blanks.
  bool Next(char separator = ' ');

  const std::vector<absl::string_view>& fields() const { return fields_; }
  int number() const { return number_; }  // the line's number, from 1

  // Returns the field as a whole number in [min, max]; the error calls it `what`.
  absl::StatusOr<int64_t> Integer(size_t field, absl::string_view what, int64_t min,
                                  int64_t max = std::numeric_limits<int64_t>::max()) const;
  // Does the same for any text from this line.
  absl::StatusOr<int64_t> ParseInteger(absl::string_view text, absl::string_view what, int64_t min,
                                       int64_t max = std::numeric_limits<int64_t>::max()) const;

  // Returns InvalidArgument: "path:line: message".
  absl::Status Error(absl::string_view message) const;

 private:
  absl::string_view path_, rest_;
  std::vector<absl::string_view> fields_;
  int number_ = 0;
};

}  // namespace snug::core::memory
