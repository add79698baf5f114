#include "engine/base/text/json.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <charconv>
#include <cmath>

#include "engine/base/text/utf8.h"

namespace snug::core {

void Json::Separate() {
  if (!first_ && !after_key_) text_ += ", ";
  first_ = after_key_ = false;
}

Json& Json::Open(char open, char close) {
  Separate();
  text_ += open;
  closers_.push_back(close);
  first_ = true;
  return *this;
}

Json& Json::End() {
  text_ += closers_.back();
  closers_.pop_back();
  first_ = false;
  return *this;
}

void Json::Quote(absl::string_view value) {
  text_ += '"';
  while (!value.empty()) {
    const char c = value[0];
    const size_t length = Utf8Length(value);
    if (length == 0) {  // no document has such bytes: names of files may
      absl::StrAppendFormat(&text_, "\\\\x%02x", static_cast<unsigned char>(c));
    } else if (c == '"' || c == '\\') {
      absl::StrAppend(&text_, "\\", absl::string_view(&c, 1));
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&text_, "\\u%04x", static_cast<unsigned>(c));
    } else {
      text_.append(value.data(), length);
    }
    value.remove_prefix(length == 0 ? 1 : length);
  }
  text_ += '"';
}

Json& Json::Key(absl::string_view key) {
  Separate();
  Quote(key);
  text_ += ": ";
  after_key_ = true;
  return *this;
}

Json& Json::String(absl::string_view value) {
  Separate();
  Quote(value);
  return *this;
}

Json& Json::Number(int64_t value) {
  Separate();
  absl::StrAppend(&text_, value);
  return *this;
}

Json& Json::Number(double value) {
  Separate();
  if (std::isfinite(value)) {
    char digits[32];
    text_.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  } else {
    text_ += "null";
  }
  return *this;
}

Json& Json::Null() {
  Separate();
  text_ += "null";
  return *this;
}

Json& Json::Bool(bool value) {
  Separate();
  text_ += value ? "true" : "false";
  return *this;
}

}  // namespace snug::core
