// Reads the records of a CSV file (RFC 4180) one after the other. Fields in quotes may hold separators, line ends and
// doubled quotes; lines end in LF or CRLF; a byte order mark and empty lines are skipped.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace snug::core {

struct CsvField {
  std::string text;
  int64_t line = 0, column = 0;  // both count from 1; columns are bytes
};

class CsvRecords {
 public:
  // `path` only appears in messages; both must outlive this.
  CsvRecords(absl::string_view path, absl::string_view text, char separator);

  // Returns the next record, or no fields at the end of the text.
  absl::StatusOr<std::vector<CsvField>> Next();

  // Returns "PATH:LINE:COLUMN: MESSAGE".
  absl::Status Error(int64_t line, int64_t column, absl::string_view message) const;

 private:
  bool AtEnd() const { return at_ == text_.size(); }
  bool AtLineEnd() const;
  void Take();
  void TakeLineEnd();
  absl::StatusOr<CsvField> Field();
  absl::Status QuotedText(CsvField& field);

  absl::string_view path_, text_;
  char separator_;
  size_t at_ = 0;
  int64_t line_ = 1, column_ = 1;
};

}  // namespace snug::core
