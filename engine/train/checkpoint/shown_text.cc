#include "engine/train/checkpoint/shown_text.h"

#include <absl/strings/str_format.h>

#include <cstdint>

#include "proto/loader/utf8.h"

namespace snug::core {
namespace {

// The number of the character that `text` is, which is well-formed UTF-8.
uint32_t CodeOf(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  if (text.size() == 1) return byte(0);
  uint32_t code = byte(0) & (0x7FU >> text.size());
  for (size_t i = 1; i < text.size(); ++i) code = (code << 6) | (byte(i) & 0x3F);
  return code;
}

bool IsUnseen(uint32_t code) {
  const auto within = [code](uint32_t first, uint32_t last) { return code >= first && code <= last; };
  return code < 0x20 || within(0x7F, 0x9F) || within(0x200B, 0x200F) || within(0x2028, 0x202E) ||
         within(0x2060, 0x206F) || code == 0xFEFF;
}

std::string Show(absl::string_view text, size_t most, absl::string_view escaped) {
  std::string shown;
  for (size_t at = 0, count = 0; at < text.size(); ++count) {
    if (count == most) return shown + "...";
    const size_t length = loader::Utf8Length(text.substr(at));
    if (length == 0) {
      absl::StrAppendFormat(&shown, "\\x%02x", static_cast<unsigned char>(text[at++]));
      continue;
    }
    const absl::string_view character = text.substr(at, length);
    at += length;
    if (const uint32_t code = CodeOf(character); IsUnseen(code)) {
      absl::StrAppendFormat(&shown, "\\u%04x", code);
      continue;
    }
    if (escaped.find(character) != absl::string_view::npos) shown += '\\';
    shown.append(character.data(), character.size());
  }
  return shown;
}

}  // namespace

std::string Printable(absl::string_view text, size_t most) { return Show(text, most, ""); }

std::string Shown(absl::string_view text, size_t most) { return '"' + Show(text, most, "\"\\") + '"'; }

}  // namespace snug::core
