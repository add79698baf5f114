#include "engine/train/data/tokenizer/words.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>

#include <limits>

#include "engine/train/data/tokenizer/unicode_classes.h"

namespace snug::core {
namespace {

constexpr absl::string_view kLongS = "\xC5\xBF";  // U+017F, which is an s where case does not matter

// 's|'t|'re|'ve|'m|'ll|'d, or the same with (?i:...). Returns 0 if the text begins with none of them.
size_t ContractionLength(absl::string_view text, bool any_case) {
  if (text[0] != '\'') return 0;
  const auto letter = [&](size_t i) {
    if (i >= text.size()) return '\0';
    return any_case ? absl::ascii_tolower(static_cast<unsigned char>(text[i])) : text[i];
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? 3 : 0;
    case 'l':
      return letter(2) == 'l' ? 3 : 0;
    default:
      return any_case && absl::StartsWith(text.substr(1), kLongS) ? 1 + kLongS.size() : 0;
  }
}

// Returns where the characters of one class end that begin at `at`, or after `most` of them.
size_t EndOfRun(absl::string_view text, size_t at, CharacterClass kind,
                size_t most = std::numeric_limits<size_t>::max()) {
  for (size_t count = 0; at < text.size() && count < most; ++count) {
    const Character next = FirstCharacter(text.substr(at));
    if (next.kind != kind) break;
    at += next.bytes;
  }
  return at;
}

// \s+(?!\S)|\s+ for a text that begins with blanks: all of them at the end of the text; otherwise all but the last,
// which belongs to the next word, unless it is the only one.
size_t BlanksLength(absl::string_view text) {
  size_t end = 0, last = 0;
  while (end < text.size()) {
    const Character next = FirstCharacter(text.substr(end));
    if (next.kind != CharacterClass::kBlank) return last > 0 ? last : end;
    last = end;
    end += next.bytes;
  }
  return end;
}

bool IsLineEnd(char c) { return c == '\r' || c == '\n'; }

// \s*[\r\n]+: the blanks up to the last line end among them. Returns 0 if there is none.
size_t LineEndsLength(absl::string_view text) {
  size_t at = 0, found = 0;
  while (at < text.size()) {
    const Character next = FirstCharacter(text.substr(at));
    if (next.kind != CharacterClass::kBlank) break;
    at += next.bytes;
    if (next.code == '\r' || next.code == '\n') found = at;
  }
  return found;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t Gpt2Length(absl::string_view text) {
  if (const size_t length = ContractionLength(text, /*any_case=*/false); length > 0) return length;
  const size_t begin = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const CharacterClass kind = FirstCharacter(text.substr(begin)).kind;
  return kind == CharacterClass::kBlank ? BlanksLength(text) : EndOfRun(text, begin, kind);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
size_t Llama3Length(absl::string_view text, size_t most_digits) {
  if (const size_t length = ContractionLength(text, /*any_case=*/true); length > 0) return length;
  const Character first = FirstCharacter(text);
  if (first.kind == CharacterClass::kLetter) return EndOfRun(text, 0, first.kind);
  if (first.kind == CharacterClass::kNumber) return EndOfRun(text, 0, first.kind, most_digits);
  if (!IsLineEnd(text[0])) {
    const size_t end = EndOfRun(text, first.bytes, CharacterClass::kLetter);
    if (end > first.bytes) return end;
  }
  const size_t begin = text[0] == ' ' ? 1 : 0;
  size_t end = EndOfRun(text, begin, CharacterClass::kOther);
  if (end > begin) {
    while (end < text.size() && IsLineEnd(text[end])) ++end;
    return end;
  }
  const size_t length = LineEndsLength(text);
  return length > 0 ? length : BlanksLength(text);
}

}  // namespace

absl::string_view RegexOf(WordPattern pattern) {
  switch (pattern) {
    case WordPattern::kNone:
      break;
    case WordPattern::kGpt2:
      return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
    case WordPattern::kLlama3:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    case WordPattern::kQwen2:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  }
  return "";
}

size_t WordLength(WordPattern pattern, absl::string_view text) {
  switch (pattern) {
    case WordPattern::kNone:
      break;
    case WordPattern::kGpt2:
      return Gpt2Length(text);
    case WordPattern::kLlama3:
      return Llama3Length(text, 3);
    case WordPattern::kQwen2:
      return Llama3Length(text, 1);
  }
  return text.size();
}

}  // namespace snug::core
