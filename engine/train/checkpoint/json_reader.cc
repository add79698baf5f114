#include "engine/train/checkpoint/json_reader.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/status.h"
#include "engine/base/text/printable.h"
#include "engine/base/text/utf8.h"

namespace snug::core::checkpoint {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

void AppendUtf8(uint32_t code, std::string* out) {
  const auto tail = [&](int shift) { *out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    *out += static_cast<char>(code);
  } else if (code < 0x800) {
    *out += static_cast<char>(0xC0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    *out += static_cast<char>(0xE0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    *out += static_cast<char>(0xF0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

// What `text` begins with: a character, or a byte that begins none.
absl::string_view Character(absl::string_view text) { return text.substr(0, std::max<size_t>(Utf8Length(text), 1)); }

}  // namespace

absl::Status JsonReader::Expected(absl::string_view what) const {
  const std::string found =
      at_ == text_.size() ? "the end" : absl::StrCat("'", Printable(Character(text_.substr(at_))), "'");
  return Error(absl::StrCat("expected ", what, ", found ", found));
}

absl::Status JsonReader::Error(absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(place_, offset_ + at_, ": ", message));
}

char JsonReader::Peek() {
  SkipBlanks();
  return at_ < text_.size() ? text_[at_] : '\0';
}

void JsonReader::SkipBlanks() {
  while (at_ < text_.size() && absl::string_view(" \t\r\n").find(text_[at_]) != absl::string_view::npos) ++at_;
}

bool JsonReader::Take(char c) {
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

absl::Status JsonReader::Begin(char open, absl::string_view what) {
  SkipBlanks();
  if (!Take(open)) return Expected(what);
  first_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> JsonReader::NextMember(char close, absl::string_view what) {
  SkipBlanks();
  const bool first = first_;
  first_ = false;  // whether this was the first element of its object or array; now it is not, nor of the one around it
  if (Take(close)) return false;
  if (!first && !Take(',')) return Expected(what);
  return true;
}

absl::StatusOr<bool> JsonReader::NextElement() { return NextMember(']', "',' or ']'"); }

absl::StatusOr<bool> JsonReader::NextKey(std::string* key) {
  SNUG_ASSIGN_OR_RETURN(const bool more, NextMember('}', "',' or '}'"));
  if (!more) return false;
  SNUG_ASSIGN_OR_RETURN(*key, String());
  SkipBlanks();
  if (!Take(':')) return Expected("':'");
  return true;
}

absl::StatusOr<uint32_t> JsonReader::HexDigits() {
  uint32_t code = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const char lower = static_cast<char>(c | 0x20);
    if (IsDigit(c)) {
      code = code * 16 + static_cast<uint32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      code = code * 16 + static_cast<uint32_t>(lower - 'a' + 10);
    } else {
      return Expected("four hexadecimal digits after \\u");
    }
    ++at_;
  }
  return code;
}

// Reads what follows a backslash.
absl::Status JsonReader::Escape(std::string* out) {
  static constexpr absl::string_view kNames = "\"\\/bfnrt";
  static constexpr absl::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const size_t known = at_ < text_.size() ? kNames.find(text_[at_]) : absl::string_view::npos;
  if (known != absl::string_view::npos) {
    *out += kMeanings[known];
    ++at_;
    return absl::OkStatus();
  }
  if (!Take('u')) return Expected("one of \"\\/bfnrtu after a backslash");
  SNUG_ASSIGN_OR_RETURN(uint32_t code, HexDigits());
  if (code >= 0xDC00 && code < 0xE000) return Expected("a first half of a surrogate pair before its second");
  if (code >= 0xD800 && code < 0xDC00) {
    if (!Take('\\') || !Take('u')) return Expected("the second half of a surrogate pair");
    SNUG_ASSIGN_OR_RETURN(const uint32_t low, HexDigits());
    if (low < 0xDC00 || low >= 0xE000) return Expected("the second half of a surrogate pair before this");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  AppendUtf8(code, out);
  return absl::OkStatus();
}

absl::StatusOr<std::string> JsonReader::String() {
  SkipBlanks();
  if (!Take('"')) return Expected("a string");
  std::string out;
  for (;;) {
    if (at_ == text_.size()) return Expected("the string's closing '\"'");
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20) return Expected("no control character in a string");
    ++at_;
    if (c == '"') return out;
    if (c != '\\') {
      out += c;
      continue;
    }
    SNUG_RETURN_IF_ERROR(Escape(&out));
  }
}

absl::StatusOr<int64_t> JsonReader::Integer() {
  SkipBlanks();
  const size_t begin = at_;
  int64_t value = 0;
  while (at_ < text_.size() && IsDigit(text_[at_])) {
    const int digit = text_[at_] - '0';
    if (value > (std::numeric_limits<int64_t>::max() - digit) / 10) return Expected("a number below 2^63");
    value = value * 10 + digit;
    ++at_;
  }
  if (at_ == begin) return Expected("a whole number, not negative");
  if (text_[begin] == '0' && at_ > begin + 1) {
    at_ = begin;
    return Expected("a number without leading zeros");
  }
  if (at_ < text_.size() && absl::string_view(".eE").find(text_[at_]) != absl::string_view::npos) {
    return Expected("a whole number");
  }
  return value;
}

absl::StatusOr<double> JsonReader::Number() {
  SkipBlanks();
  const size_t begin = at_;
  const auto digits = [this] {
    const size_t first = at_;
    while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
    return at_ - first;
  };
  Take('-');
  const bool zero = at_ < text_.size() && text_[at_] == '0';
  const size_t whole = digits();
  if (whole == 0) return Expected("a number");
  if (zero && whole > 1) {
    at_ = begin;
    return Expected("a number without leading zeros");
  }
  if (Take('.') && digits() == 0) return Expected("a digit after '.'");
  if (Take('e') || Take('E')) {
    if (!Take('-')) Take('+');
    if (digits() == 0) return Expected("a digit in the exponent");
  }
  double value = 0;
  if (!absl::SimpleAtod(text_.substr(begin, at_ - begin), &value) || !std::isfinite(value)) {
    at_ = begin;
    return Error("expected a number that float64 can hold, found one that is too large");
  }
  return value;
}

absl::Status JsonReader::Skip(int depth) {
  if (depth == 0) return Error("expected values that are not nested so deeply");
  const char next = Peek();
  if (next == '"') return String().status();
  if (next == '{') {
    SNUG_RETURN_IF_ERROR(BeginObject());
    std::string key;
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, NextKey(&key));
      if (!more) return absl::OkStatus();
      SNUG_RETURN_IF_ERROR(Skip(depth - 1));
    }
  }
  if (next == '[') {
    SNUG_RETURN_IF_ERROR(BeginArray());
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, NextElement());
      if (!more) return absl::OkStatus();
      SNUG_RETURN_IF_ERROR(Skip(depth - 1));
    }
  }
  for (const absl::string_view word : {"true", "false", "null"}) {
    if (text_.substr(at_, word.size()) != word) continue;
    at_ += word.size();
    return absl::OkStatus();
  }
  if (next != '-' && !IsDigit(next)) return Expected("a value");
  return Number().status();
}

absl::Status JsonReader::End() {
  SkipBlanks();
  return at_ == text_.size() ? absl::OkStatus() : Expected("nothing after the closing '}'");
}

std::string JsonQuoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppend(&out, "\\u", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad4));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace snug::core::checkpoint
