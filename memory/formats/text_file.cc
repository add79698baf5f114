#include "memory/formats/text_file.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "engine/base/status.h"
#include "engine/base/text/output_file.h"

namespace snug::core::memory {

absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a file, found a directory"));
  }
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) return absl::NotFoundError(absl::StrCat(path, ": cannot be read: ", std::strerror(errno)));
  std::string text;
  char chunk[1 << 16];
  for (;;) {
    const int count = gzread(file.get(), chunk, sizeof(chunk));
    int code = Z_OK;
    const char* message = gzerror(file.get(), &code);
    if (count < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": cannot be read to its end: ", code == Z_ERRNO ? std::strerror(errno) : message));
    }
    if (count == 0) return text;
    text.append(chunk, static_cast<size_t>(count));
    if (static_cast<int64_t>(text.size()) > max_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": has more than ", max_bytes, " bytes of text"));
    }
  }
}

absl::Status WriteTextFile(const std::string& path, absl::string_view text) {
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(path));
  file->Write(text);
  return file->Finish();
}

TextLines::TextLines(absl::string_view path, absl::string_view text)
    : path_(path), rest_(absl::StripPrefix(text, "\xEF\xBB\xBF")) {}

bool TextLines::Next(char separator) {
  while (!rest_.empty()) {
    const size_t end = rest_.find('\n');
    const absl::string_view line = absl::StripAsciiWhitespace(rest_.substr(0, end));
    rest_ = end == absl::string_view::npos ? absl::string_view() : rest_.substr(end + 1);
    ++number_;
    if (line.empty() || line[0] == '#') continue;
    if (separator == ' ') {
      fields_ = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    } else {
      fields_ = absl::StrSplit(line, separator);
    }
    return true;
  }
  fields_.clear();
  return false;
}

absl::StatusOr<int64_t> TextLines::Integer(size_t field, absl::string_view what, int64_t min, int64_t max) const {
  if (field < fields_.size()) return ParseInteger(fields_[field], what, min, max);
  return Error(absl::StrCat("expected ", what, " as field ", field + 1, ", found the end of the line"));
}

absl::StatusOr<int64_t> TextLines::ParseInteger(absl::string_view text, absl::string_view what, int64_t min,
                                                int64_t max) const {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return Error(absl::StrCat("expected ", what, ", found \"", text, "\""));
  if (value < min) return Error(absl::StrCat("expected ", what, " of at least ", min, ", found ", value));
  if (value > max) return Error(absl::StrCat("expected ", what, " of at most ", max, ", found ", value));
  return value;
}

absl::Status TextLines::Error(absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ":", number_, ": ", message));
}

}  // namespace snug::core::memory
