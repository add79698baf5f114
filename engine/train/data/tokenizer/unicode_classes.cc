#include "engine/train/data/tokenizer/unicode_classes.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace snug::core {
namespace {

struct CodeRange {
  uint32_t first, last;
};

#include "engine/train/data/tokenizer/unicode_ranges.inc"

template <size_t n>
bool Contains(const CodeRange (&ranges)[n], uint32_t code) {
  const CodeRange* const found = std::upper_bound(std::begin(ranges), std::end(ranges), code,
                                                  [](uint32_t c, const CodeRange& range) { return c < range.first; });
  return found != std::begin(ranges) && code <= std::prev(found)->last;
}

CharacterClass LookUp(uint32_t code) {
  if (Contains(kLetters, code)) return CharacterClass::kLetter;
  if (Contains(kNumbers, code)) return CharacterClass::kNumber;
  return Contains(kBlanks, code) ? CharacterClass::kBlank : CharacterClass::kOther;
}

// Most text has few characters beyond these: Latin, Greek, Cyrillic, Hebrew, Arabic.
constexpr uint32_t kFrequent = 0x800;

const std::array<CharacterClass, kFrequent>& FrequentClasses() {
  static const std::array<CharacterClass, kFrequent> kClasses = [] {
    std::array<CharacterClass, kFrequent> classes = {};
    for (uint32_t code = 0; code < kFrequent; ++code) classes[code] = LookUp(code);
    return classes;
  }();
  return kClasses;
}

}  // namespace

CharacterClass ClassOf(uint32_t code) { return code < kFrequent ? FrequentClasses()[code] : LookUp(code); }

Character FirstCharacter(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const auto tail = [&](size_t i) { return byte(i) & 0x3F; };
  Character character;
  const uint32_t first = byte(0);
  if (first < 0x80) {
    character = {.code = first, .bytes = 1};
  } else if (first < 0xE0) {
    character = {.code = (first & 0x1F) << 6 | tail(1), .bytes = 2};
  } else if (first < 0xF0) {
    character = {.code = (first & 0x0F) << 12 | tail(1) << 6 | tail(2), .bytes = 3};
  } else {
    character = {.code = (first & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), .bytes = 4};
  }
  character.kind = ClassOf(character.code);
  return character;
}

absl::string_view UnicodeVersion() { return kUnicodeVersion; }

}  // namespace snug::core
