#include "engine/train/data/tokenizer/added_tokens.h"

#include <utility>

#include "engine/train/data/tokenizer/unicode_classes.h"

namespace snug::core {
namespace {

uint64_t EdgeOf(uint32_t node, char byte) { return uint64_t{node} << 8 | static_cast<unsigned char>(byte); }

// Returns how many bytes of blanks `text` begins with.
size_t BlanksAtStart(absl::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Character next = FirstCharacter(text.substr(at));
    if (next.kind != CharacterClass::kBlank) break;
    at += next.bytes;
  }
  return at;
}

// Returns how many bytes of `text` come before the blanks at its end.
size_t WithoutBlanksAtEnd(absl::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (FirstCharacter(text.substr(begin, end - begin)).kind != CharacterClass::kBlank) break;
    end = begin;
  }
  return end;
}

}  // namespace

void AddedTokens::Add(AddedToken token) {
  uint32_t node = 0;
  for (const char byte : token.text) {
    const auto [found, is_new] = next_.try_emplace(EdgeOf(node, byte), static_cast<uint32_t>(token_of_.size()));
    if (is_new) token_of_.push_back(-1);
    node = found->second;
  }
  begins_[static_cast<unsigned char>(token.text[0])] = true;
  token_of_[node] = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(std::move(token));
}

const AddedToken* AddedTokens::LongestAt(absl::string_view text) const {
  const AddedToken* longest = nullptr;
  uint32_t node = 0;
  for (const char byte : text) {
    const auto found = next_.find(EdgeOf(node, byte));
    if (found == next_.end()) break;
    node = found->second;
    if (token_of_[node] >= 0) longest = &tokens_[static_cast<size_t>(token_of_[node])];
  }
  return longest;
}

std::vector<AddedTokens::Piece> AddedTokens::Split(absl::string_view text) const {
  std::vector<Piece> pieces;
  size_t done = 0;
  for (size_t at = 0; at < text.size() && !tokens_.empty();) {
    const AddedToken* const token =
        begins_[static_cast<unsigned char>(text[at])] ? LongestAt(text.substr(at)) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->text.size();
    at = end;
    // Blanks that an earlier token has taken are not taken again.
    if (token->takes_blanks_before) {
      begin = begin > done ? done + WithoutBlanksAtEnd(text.substr(done, begin - done)) : done;
    }
    if (token->takes_blanks_after) end += BlanksAtStart(text.substr(end));
    if (done < begin) pieces.push_back({.text = text.substr(done, begin - done)});
    pieces.push_back({.id = token->id});
    done = end;
  }
  if (done < text.size()) pieces.push_back({.text = text.substr(done)});
  return pieces;
}

}  // namespace snug::core
