#include "engine/train/data/tokenizer/byte_pairs.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace snug::core {
namespace {

constexpr size_t kRememberedWords = size_t{1} << 14;
constexpr size_t kLongestRemembered = 64;  // in bytes

uint64_t PairOf(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// Spreads pairs over a table (the finaliser of MurmurHash3).
uint64_t Spread(uint64_t x) {
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCDU;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53U;
  return x ^ x >> 33;
}

}  // namespace

BytePairs::Scratch::Scratch() : words_(kRememberedWords) {}

BytePairs::BytePairs(const std::array<int32_t, 256>& bytes, const std::vector<Merge>& merges,
                     std::unordered_map<std::string, int32_t> whole)
    : bytes_(bytes), rules_(std::bit_ceil(2 * merges.size() + 2)), whole_(std::move(whole)) {
  int32_t rank = 0;
  for (const Merge& merge : merges) {
    const uint64_t pair = PairOf(merge.left, merge.right);
    PlaceOf(pair) = {.pair = pair, .rank = rank++, .merged = merge.merged};
  }
}

BytePairs::Rule& BytePairs::PlaceOf(uint64_t pair) {
  size_t at = Spread(pair) & (rules_.size() - 1);
  while (rules_[at].rank >= 0 && rules_[at].pair != pair) at = (at + 1) & (rules_.size() - 1);
  return rules_[at];
}

const BytePairs::Rule* BytePairs::Find(int32_t left, int32_t right) const {
  const uint64_t pair = PairOf(left, right);
  size_t at = Spread(pair) & (rules_.size() - 1);
  while (rules_[at].rank >= 0) {
    if (rules_[at].pair == pair) return &rules_[at];
    at = (at + 1) & (rules_.size() - 1);
  }
  return nullptr;
}

void BytePairs::Encode(absl::string_view word, Scratch& scratch, std::vector<int32_t>* tokens) const {
  const std::string_view text(word.data(), word.size());
  if (text.size() > kLongestRemembered) {
    MergeWord(word, scratch);
    tokens->insert(tokens->end(), scratch.tokens_.begin(), scratch.tokens_.end());
    return;
  }
  Scratch::Remembered& place = scratch.words_[std::hash<std::string_view>()(text) & (kRememberedWords - 1)];
  if (place.word != text) {
    MergeWord(word, scratch);
    place.word.assign(text);
    place.tokens.assign(scratch.tokens_.begin(), scratch.tokens_.end());
  }
  tokens->insert(tokens->end(), place.tokens.begin(), place.tokens.end());
}

// Merges as the package tokenizers does, so that results are equal for any list of merges, also where two pairs become
// the same token: a candidate counts if its place still holds a pair that becomes what it says.
void BytePairs::MergeWord(absl::string_view word, Scratch& scratch) const {
  scratch.tokens_.clear();
  if (!whole_.empty()) {
    if (const auto found = whole_.find(std::string(word)); found != whole_.end()) {
      scratch.tokens_.push_back(found->second);
      return;
    }
  }
  using Symbol = Scratch::Symbol;
  using Candidate = Scratch::Candidate;
  std::vector<Symbol>& symbols = scratch.symbols_;
  std::vector<Candidate>& heap = scratch.heap_;
  const auto size = static_cast<int32_t>(word.size());
  const auto symbol = [&](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
  symbols.resize(word.size());
  heap.clear();
  for (int32_t i = 0; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(word[static_cast<size_t>(i)]);
    symbol(i) = {.token = bytes_[byte], .before = i - 1, .after = i + 1 < size ? i + 1 : -1};
  }
  const auto consider = [&](int32_t left) {
    const Rule* const rule = Find(symbol(left).token, symbol(symbol(left).after).token);
    if (rule == nullptr) return false;
    heap.push_back({static_cast<uint64_t>(rule->rank) << 32 | static_cast<uint32_t>(left), rule->merged});
    return true;
  };
  for (int32_t i = 0; i + 1 < size; ++i) consider(i);
  std::make_heap(heap.begin(), heap.end());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Candidate top = heap.back();
    heap.pop_back();
    Symbol& left = symbol(top.at());
    if (left.gone || left.after < 0) continue;
    Symbol& right = symbol(left.after);
    const Rule* const rule = Find(left.token, right.token);
    if (rule == nullptr || rule->merged != top.merged) continue;
    left.token = top.merged;
    left.after = right.after;
    right.gone = true;
    if (left.after >= 0) symbol(left.after).before = top.at();
    if (left.before >= 0 && consider(left.before)) std::push_heap(heap.begin(), heap.end());
    if (left.after >= 0 && consider(top.at())) std::push_heap(heap.begin(), heap.end());
  }
  for (int32_t i = 0; i >= 0 && i < size; i = symbol(i).after) scratch.tokens_.push_back(symbol(i).token);
}

}  // namespace snug::core
