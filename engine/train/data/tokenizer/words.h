// Cuts a text into the words that byte pairs are merged in. Tokenizers say how by a regular expression; these are the
// ones in use, each worked out by hand, so that cutting takes time in proportion to the text whatever it holds.
#pragma once

#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>

namespace snug::core {

enum class WordPattern : uint8_t {
  kNone,    // the whole text is one word
  kGpt2,    // of GPT-2, which pre-tokenizers ByteLevel have built in
  kLlama3,  // of Llama 3
  kQwen2,   // of Qwen 2: as Llama 3's, but each digit is a word of its own
};

// The expression as it stands in files; empty for kNone.
absl::string_view RegexOf(WordPattern pattern);

// Returns how many bytes the first word of `text` has, which is UTF-8 and not empty.
size_t WordLength(WordPattern pattern, absl::string_view text);

}  // namespace snug::core
