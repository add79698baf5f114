#include "engine/base/text/printable.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_format.h>

#include <cstddef>
#include <cstdint>

namespace snug::core {
namespace {

struct Character {
  size_t bytes = 0;  // 0: it is none
  uint32_t code = 0;
};

// The character that `text` begins with, as UTF-8 has it: nothing longer than it need be, no surrogates, nothing above
// U+10FFFF.
Character FirstOf(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {1, first};
  const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC0 || first >= 0xF8 || text.size() < bytes) return {};
  uint32_t code = first & (0xFFU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // that takes so many bytes
  if (code < kLeast[bytes] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {bytes, code};
}

// Control characters of the second kind (C1), which terminals obey too; line and paragraph separators; and the marks,
// embeddings and isolates by which text changes its direction.
bool IsUnseen(uint32_t code) {
  return (code >= 0x80 && code <= 0x9F) || code == 0x61C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::string Printable(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Character first = FirstOf(text);
    const absl::string_view bytes = text.substr(0, first.bytes);
    if (first.bytes == 0) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(text[0]));
    } else if (first.code < 0x20 || first.code == 0x7F) {
      out += absl::CEscape(bytes);
    } else if (IsUnseen(first.code)) {
      absl::StrAppendFormat(&out, "\\u%04x", first.code);
    } else {
      out.append(bytes.data(), bytes.size());
    }
    text.remove_prefix(first.bytes == 0 ? 1 : first.bytes);
  }
  return out;
}

}  // namespace snug::core
