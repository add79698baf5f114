// What a file `tokenizer.json` says, checked and resolved.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/train/data/tokenizer/added_tokens.h"
#include "engine/train/data/tokenizer/byte_pairs.h"
#include "engine/train/data/tokenizer/words.h"

namespace snug::core {

struct TokenizerFile {
  // Two kinds of tokens that stand in the text: first the one kind is found, then, between them, the other.
  std::vector<AddedToken> added, added_later;
  bool prefix_space = false;  // a text that begins with no space gets one
  WordPattern pattern = WordPattern::kNone;
  std::array<int32_t, 256> bytes = {};             // the token of each byte
  std::vector<BytePairs::Merge> merges;            // in the sequence in which they were learnt
  std::unordered_map<std::string, int32_t> whole;  // words that are taken without merging
  std::vector<int32_t> before, after;              // what is put around every text
  int64_t bound = 0;                               // all tokens lie in [0, bound)
};

// `path` only appears in errors.
absl::StatusOr<TokenizerFile> ParseTokenizer(absl::string_view text, const std::string& path);

}  // namespace snug::core
