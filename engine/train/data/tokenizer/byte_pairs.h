// Byte-pair encoding (Sennrich et al. 2016, on bytes: GPT-2): a word begins as its bytes, and the pair of neighbours
// that was learnt first is merged, again and again, until no pair is known.
#pragma once

#include <absl/strings/string_view.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace snug::core {

class BytePairs {
 public:
  struct Merge {
    int32_t left = 0, right = 0;
    int32_t merged = 0;
  };
  // What the work on one word needs, kept from one to the next. Frequent words are remembered with their tokens.
  class Scratch;

  // `bytes` are the tokens of single bytes. The sequence of `merges` is that in which they were learnt; of a pair that
  // comes twice, the last counts. `whole` are words that are one token, whatever merges say.
  BytePairs(const std::array<int32_t, 256>& bytes, const std::vector<Merge>& merges,
            std::unordered_map<std::string, int32_t> whole);

  // Appends the tokens of a word, in time n log n.
  void Encode(absl::string_view word, Scratch& scratch, std::vector<int32_t>* tokens) const;

 private:
  // What a pair becomes, and how early it was learnt.
  struct Rule {
    uint64_t pair = 0;
    int32_t rank = -1;  // -1: an empty place
    int32_t merged = 0;
  };
  const Rule* Find(int32_t left, int32_t right) const;
  Rule& PlaceOf(uint64_t pair);
  void MergeWord(absl::string_view word, Scratch& scratch) const;

  std::array<int32_t, 256> bytes_;
  std::vector<Rule> rules_;  // a hash table with open addressing; as many places as a power of two
  std::unordered_map<std::string, int32_t> whole_;
};

class BytePairs::Scratch {
 public:
  Scratch();

 private:
  friend class BytePairs;
  // A token of the word that is worked on; neighbours by index, -1: none. It is gone once another has taken it in.
  struct Symbol {
    int32_t token = 0;
    int32_t before = -1, after = -1;
    bool gone = false;
  };
  // A pair that may be merged: `rank` and `at` decide which is next. It is stale if its left symbol has changed.
  struct Candidate {
    uint64_t order = 0;  // rank, then the left symbol's index
    int32_t merged = 0;

    int32_t at() const { return static_cast<int32_t>(order & 0xFFFFFFFF); }
    friend bool operator<(const Candidate& a, const Candidate& b) { return a.order > b.order; }  // least on top
  };
  struct Remembered {
    std::string word;
    std::vector<int32_t> tokens;
  };

  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  std::vector<int32_t> tokens_;
  std::vector<Remembered> words_;  // each word has one place, which the last one that belongs there has
};

}  // namespace snug::core
