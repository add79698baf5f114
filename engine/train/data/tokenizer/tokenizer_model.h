// The part "model" of a file `tokenizer.json`: the vocabulary, and which tokens are merged.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/train/checkpoint/json_reader.h"
#include "engine/train/data/tokenizer/byte_pairs.h"
#include "engine/train/data/tokenizer/json_checks.h"

namespace snug::core {

struct TokenizerModel {
  std::unordered_map<std::string, int32_t> vocabulary;  // bytes stand in it as printable characters
  std::unordered_set<int32_t> ids;                      // all in the vocabulary
  std::array<int32_t, 256> bytes = {};                  // the token of each byte
  std::vector<BytePairs::Merge> merges;                 // in the sequence in which they were learnt
  std::unordered_map<std::string, int32_t> whole;       // by their bytes, words that are taken without merging
  int64_t bound = 0;                                    // all tokens lie in [0, bound)
};

// Reads the object that `json` comes to next. `*room` is that of ReadJsonValue.
absl::StatusOr<TokenizerModel> ReadTokenizerModel(checkpoint::JsonReader& json, const JsonChecks& checks,
                                                  int64_t* room);

}  // namespace snug::core
