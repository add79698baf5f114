#include "engine/train/data/csv_records.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <utility>

#include "engine/base/status.h"

namespace snug::core {

CsvRecords::CsvRecords(absl::string_view path, absl::string_view text, char separator)
    : path_(path), text_(absl::StripPrefix(text, "\xEF\xBB\xBF")), separator_(separator) {}

absl::Status CsvRecords::Error(int64_t line, int64_t column, absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ":", line, ":", column, ": ", message));
}

bool CsvRecords::AtLineEnd() const {
  return AtEnd() || text_[at_] == '\n' || (text_[at_] == '\r' && text_.substr(at_, 2) == "\r\n");
}

void CsvRecords::Take() {
  if (text_[at_++] == '\n') {
    ++line_;
    column_ = 1;
  } else {
    ++column_;
  }
}

void CsvRecords::TakeLineEnd() {
  if (!AtEnd() && text_[at_] == '\r') Take();
  if (!AtEnd()) Take();
}

absl::StatusOr<std::vector<CsvField>> CsvRecords::Next() {
  while (!AtEnd() && AtLineEnd()) TakeLineEnd();
  std::vector<CsvField> fields;
  if (AtEnd()) return fields;
  for (;;) {
    SNUG_ASSIGN_OR_RETURN(CsvField field, Field());
    fields.push_back(std::move(field));
    if (AtLineEnd()) break;
    Take();  // takes the separator
  }
  TakeLineEnd();
  return fields;
}

absl::StatusOr<CsvField> CsvRecords::Field() {
  CsvField field = {.line = line_, .column = column_};
  if (!AtLineEnd() && text_[at_] == '"') {
    SNUG_RETURN_IF_ERROR(QuotedText(field));
    if (!AtLineEnd() && text_[at_] != separator_) {
      return Error(
          line_, column_,
          absl::StrCat("expected \"", std::string(1, separator_), "\" or the end of the line after a closing quote"));
    }
    return field;
  }
  const size_t begin = at_;
  while (!AtLineEnd() && text_[at_] != separator_) Take();
  field.text = std::string(text_.substr(begin, at_ - begin));
  return field;
}

absl::Status CsvRecords::QuotedText(CsvField& field) {
  Take();
  while (!AtEnd()) {
    if (text_[at_] == '"') {
      Take();
      if (AtEnd() || text_[at_] != '"') return absl::OkStatus();
    }
    field.text.push_back(text_[at_]);
    Take();
  }
  return Error(field.line, field.column, "expected a closing quote before the end of the file");
}

}  // namespace snug::core
