// Text files of records: read whole, gzipped or not, then line by line in fields, with errors that say file and line.
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

namespace snug::memory {

// The file's text; what is gzipped (told by its content, not its name) is unpacked. At most `max_bytes`, unpacked.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes = int64_t{1} << 30);

// Whole or not at all.
absl::Status WriteTextFile(const std::string& path, absl::string_view text);

class TextLines {
 public:
  // Both must outlive this; `path` is for messages. A byte order mark is no text.
  TextLines(absl::string_view path, absl::string_view text);

  // Goes to the next line that is neither empty nor a comment (`#`); false: there is none. Fields are what `separator`
  // parts; with ' ', any run of blanks.
  bool Next(char separator = ' ');

  const std::vector<absl::string_view>& fields() const { return fields_; }
  int number() const { return number_; }  // of the line, from 1

  // The field as a whole number in [min, max]; the error calls it `what`.
  absl::StatusOr<int64_t> Integer(size_t field, absl::string_view what, int64_t min,
                                  int64_t max = std::numeric_limits<int64_t>::max()) const;
  // The same of any text of this line.
  absl::StatusOr<int64_t> ParseInteger(absl::string_view text, absl::string_view what, int64_t min,
                                       int64_t max = std::numeric_limits<int64_t>::max()) const;

  // InvalidArgument: "path:line: message".
  absl::Status Error(absl::string_view message) const;

 private:
  absl::string_view path_, rest_;
  std::vector<absl::string_view> fields_;
  int number_ = 0;
};

}  // namespace snug::memory
