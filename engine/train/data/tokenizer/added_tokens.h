// Tokens that stand in a text as themselves, "<|endoftext|>": they are found before words are cut.
#pragma once

#include <absl/strings/string_view.h>

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace snug::core {

struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool takes_blanks_before = false, takes_blanks_after = false;  // they become part of it, and vanish
};

class AddedTokens {
 public:
  static constexpr size_t kLongest = 1024;  // bytes of a token

  // Texts are not empty, and at most kLongest. Of two with the same text the last counts.
  void Add(AddedToken token);

  struct Piece {
    absl::string_view text = {};  // what stands between tokens
    int32_t id = -1;              // of a token, which has no text here; -1 for text
  };
  // Cuts `text` at the tokens in it: from the left, and of those that begin at one place the longest.
  std::vector<Piece> Split(absl::string_view text) const;

 private:
  // Returns the token that `text` begins with, or null.
  const AddedToken* LongestAt(absl::string_view text) const;

  // A trie: from a node, by a byte, to a node. Node 0 is the root.
  std::unordered_map<uint64_t, uint32_t> next_;
  std::vector<int32_t> token_of_ = {-1};  // by node: an index of tokens_
  std::array<bool, 256> begins_ = {};     // whether a token begins with that byte
  std::vector<AddedToken> tokens_;
};

}  // namespace snug::core
