// Which characters are letters (Unicode's general categories L*), numbers (N*) and blanks (White_Space): what the
// patterns of tokenizers ask for.
#pragma once

#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>

namespace snug::core {

enum class CharacterClass : uint8_t { kOther, kLetter, kNumber, kBlank };

CharacterClass ClassOf(uint32_t code);

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
  CharacterClass kind = CharacterClass::kOther;
};

// Returns the first character of `text`, which is UTF-8 and not empty.
Character FirstCharacter(absl::string_view text);

// The table's version of Unicode, "16.0.0".
absl::string_view UnicodeVersion();

}  // namespace snug::core
