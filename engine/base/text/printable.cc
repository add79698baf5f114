#include "engine/base/text/printable.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_format.h>

#include <cstdint>

#include "engine/base/text/utf8.h"

namespace snug::core {
namespace {

// The number of the character that `text` is, which is well-formed UTF-8.
uint32_t CodeOf(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  if (text.size() == 1) return byte(0);
  uint32_t code = byte(0) & (0x7FU >> text.size());
  for (size_t i = 1; i < text.size(); ++i) code = code << 6 | (byte(i) & 0x3FU);
  return code;
}

// Control characters of the second kind (C1), which terminals obey too; line and paragraph separators; the marks,
// embeddings and isolates by which text changes its direction; and the byte order mark.
bool IsUnseen(uint32_t code) {
  return (code >= 0x80 && code <= 0x9F) || code == 0x61C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

// Puts a backslash before the characters in `marked`.
std::string Escaped(absl::string_view text, size_t most, absl::string_view marked) {
  std::string out;
  for (size_t count = 0; !text.empty(); ++count) {
    if (count == most) return out + "...";
    const size_t length = Utf8Length(text);
    const absl::string_view character = text.substr(0, length);
    const uint32_t code = length == 0 ? 0 : CodeOf(character);
    if (length == 0) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(text[0]));
    } else if (code < 0x20 || code == 0x7F) {
      out += absl::CEscape(character);
    } else if (IsUnseen(code)) {
      absl::StrAppendFormat(&out, "\\u%04x", code);
    } else {
      if (marked.find(character) != absl::string_view::npos) out += '\\';
      out.append(character.data(), character.size());
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace

std::string Printable(absl::string_view text, size_t most) { return Escaped(text, most, ""); }

std::string Shown(absl::string_view text, size_t most) { return '"' + Escaped(text, most, "\"\\") + '"'; }

}  // namespace snug::core
