#include "engine/train/data/tokenizer/tokenizer_model.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/utf8.h"
#include "engine/train/data/tokenizer/json_value.h"

namespace snug::core {
namespace {

using checkpoint::JsonQuoted;

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    *out += static_cast<char>(code);
  } else {  // no character of the alphabet takes more than two bytes
    *out += static_cast<char>(0xC0 | code >> 6);
    *out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// How a byte stands in the vocabulary: printable ones as themselves, the others as characters from U+0100 on.
std::array<std::string, 256> Alphabet() {
  std::array<std::string, 256> alphabet;
  uint32_t others = 0;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    AppendUtf8(printable ? byte : 0x100 + others++, &alphabet[byte]);
  }
  return alphabet;
}

// The vocabulary and the merges are large, and taken as they come.
class ModelReader {
 public:
  ModelReader(checkpoint::JsonReader& json, const JsonChecks& checks, int64_t* room)
      : json_(json), checks_(checks), room_(room), alphabet_(Alphabet()) {}

  absl::StatusOr<TokenizerModel> Read() {
    SNUG_RETURN_IF_ERROR(ReadMembers());
    SNUG_RETURN_IF_ERROR(Resolve());
    return std::move(model_);
  }

 private:
  struct MergeText {
    std::string left, right;
    size_t at = 0;
  };

  absl::Status ReadMembers() {
    SNUG_RETURN_IF_ERROR(json_.BeginObject());
    std::string key;
    std::unordered_set<std::string> keys;
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextKey(&key));
      if (!more) break;
      if (!keys.insert(key).second) {
        return json_.Error(absl::StrCat("model: expected ", JsonQuoted(key), " once, found it twice"));
      }
      if (key == "vocab") {
        SNUG_RETURN_IF_ERROR(ReadVocabulary());
      } else if (key == "merges") {
        SNUG_RETURN_IF_ERROR(ReadMerges());
      } else {
        SNUG_ASSIGN_OR_RETURN(const JsonValue value, ReadJsonValue(json_, room_));
        SNUG_RETURN_IF_ERROR(CheckOptionOfModel(key, value));
      }
    }
    for (const char* const needed : {"type", "vocab", "merges"}) {
      if (keys.count(needed) == 0) return json_.Error(absl::StrCat("model: expected \"", needed, "\", found none"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckOptionOfModel(const std::string& key, const JsonValue& value) {
    static constexpr std::array<absl::string_view, 10> kKnown = {"type",
                                                                 "dropout",
                                                                 "unk_token",
                                                                 "continuing_subword_prefix",
                                                                 "end_of_word_suffix",
                                                                 "fuse_unk",
                                                                 "byte_fallback",
                                                                 "ignore_merges",
                                                                 "vocab",
                                                                 "merges"};
    const std::string what = absl::StrCat("model.", key);
    if (key == "type") return value.text == "BPE" ? absl::OkStatus() : checks_.Refuse(what, value, "\"BPE\"");
    if (key == "dropout") {
      const bool none = value.null() || (value.kind == JsonValue::Kind::kNumber && value.number == 0);
      return none ? absl::OkStatus() : checks_.Refuse(what, value, "null");
    }
    if (key == "continuing_subword_prefix" || key == "end_of_word_suffix") {
      const bool none = value.null() || (value.kind == JsonValue::Kind::kString && value.text.empty());
      return none ? absl::OkStatus() : checks_.Refuse(what, value, "null");
    }
    // What happens to characters that the vocabulary lacks. It lacks none: every byte must be in it.
    if (key == "unk_token" || key == "fuse_unk" || key == "byte_fallback") return absl::OkStatus();
    if (key != "ignore_merges") return checks_.Unknown(value.at, "model", key, kKnown);
    if (value.kind != JsonValue::Kind::kBool) return checks_.Refuse(what, value, "true or false");
    ignores_merges_ = value.boolean;
    return absl::OkStatus();
  }

  absl::Status ReadVocabulary() {
    SNUG_RETURN_IF_ERROR(json_.BeginObject());
    std::string text;
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextKey(&text));
      if (!more) return absl::OkStatus();
      SNUG_ASSIGN_OR_RETURN(const int64_t id, json_.Integer());
      if (id > JsonChecks::kMaxId)
        return json_.Error(absl::StrCat("model.vocab: expected at most ", JsonChecks::kMaxId, ", found ", id));
      if (!model_.ids.insert(static_cast<int32_t>(id)).second) {
        return json_.Error(absl::StrCat("model.vocab: ", JsonQuoted(text), ": expected a token of its own, found ", id,
                                        ", which is another's too"));
      }
      if (!model_.vocabulary.emplace(text, static_cast<int32_t>(id)).second) {
        return json_.Error(absl::StrCat("model.vocab: expected ", JsonQuoted(text), " once, found it twice"));
      }
      model_.bound = std::max(model_.bound, id + 1);
    }
  }

  // Merges are texts with a space, or lists of two texts.
  absl::Status ReadMerges() {
    SNUG_RETURN_IF_ERROR(json_.BeginArray());
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextElement());
      if (!more) return absl::OkStatus();
      MergeText merge;
      const char next = json_.Peek();
      merge.at = json_.at();
      if (next == '"') {
        SNUG_ASSIGN_OR_RETURN(const bool is_merge, ReadJoined(&merge));
        if (!is_merge) continue;
      } else if (next == '[') {
        SNUG_RETURN_IF_ERROR(ReadPair(&merge));
      } else {
        return json_.Expected("a merge, as \"a b\" or [\"a\", \"b\"],");
      }
      merges_.push_back(std::move(merge));
    }
  }

  // Reads "a b". Returns false for a line that the older files merges.txt begin with, "#version: 0.2".
  absl::StatusOr<bool> ReadJoined(MergeText* merge) {
    SNUG_ASSIGN_OR_RETURN(merge->left, json_.String());
    if (absl::StartsWith(merge->left, "#version")) return false;
    const size_t space = merge->left.find(' ');
    if (space == std::string::npos || merge->left.find(' ', space + 1) != std::string::npos) {
      return checks_.Error(merge->at, absl::StrCat("model.merges: expected two texts with a space between, found ",
                                                   JsonQuoted(merge->left)));
    }
    merge->right = merge->left.substr(space + 1);
    merge->left.resize(space);
    return true;
  }

  absl::Status ReadPair(MergeText* merge) {
    SNUG_RETURN_IF_ERROR(json_.BeginArray());
    for (std::string* part : {&merge->left, &merge->right}) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextElement());
      if (!more) return json_.Error("model.merges: expected two texts in a list, found fewer");
      SNUG_ASSIGN_OR_RETURN(*part, json_.String());
    }
    SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextElement());
    return more ? json_.Error("model.merges: expected two texts in a list, found more") : absl::OkStatus();
  }

  absl::StatusOr<int32_t> TokenOf(const MergeText& merge, const std::string& text) const {
    const auto found = model_.vocabulary.find(text);
    if (found != model_.vocabulary.end()) return found->second;
    return checks_.Error(merge.at,
                         absl::StrCat("model.merges: ", JsonQuoted(merge.left), " and ", JsonQuoted(merge.right),
                                      ": expected ", JsonQuoted(text), " in the vocabulary, found none"));
  }

  absl::Status Resolve() {
    for (size_t byte = 0; byte < alphabet_.size(); ++byte) {
      const auto found = model_.vocabulary.find(alphabet_[byte]);
      if (found == model_.vocabulary.end()) {
        return checks_.ErrorOfFile(absl::StrCat("model.vocab: expected a token for each byte, found none for byte ",
                                                byte, " (", JsonQuoted(alphabet_[byte]),
                                                "): train it with initial_alphabet=ByteLevel.alphabet()"));
      }
      model_.bytes[byte] = found->second;
    }
    for (const MergeText& merge : merges_) {
      BytePairs::Merge resolved;
      SNUG_ASSIGN_OR_RETURN(resolved.left, TokenOf(merge, merge.left));
      SNUG_ASSIGN_OR_RETURN(resolved.right, TokenOf(merge, merge.right));
      SNUG_ASSIGN_OR_RETURN(resolved.merged, TokenOf(merge, merge.left + merge.right));
      model_.merges.push_back(resolved);
    }
    if (ignores_merges_) FindWholeWords();
    return absl::OkStatus();
  }

  // The vocabulary's texts as bytes, where they are such.
  void FindWholeWords() {
    std::unordered_map<std::string, char> byte_of;
    for (size_t byte = 0; byte < alphabet_.size(); ++byte) byte_of[alphabet_[byte]] = static_cast<char>(byte);
    for (const auto& [text, id] : model_.vocabulary) {
      std::string bytes;
      size_t at = 0;
      while (at < text.size()) {
        const size_t length = Utf8Length(absl::string_view(text).substr(at));
        const auto found = byte_of.find(text.substr(at, length));
        if (found == byte_of.end()) break;
        bytes += found->second;
        at += length;
      }
      if (at == text.size()) model_.whole.emplace(std::move(bytes), id);
    }
  }

  checkpoint::JsonReader& json_;
  const JsonChecks& checks_;
  int64_t* const room_;
  const std::array<std::string, 256> alphabet_;
  std::vector<MergeText> merges_;
  bool ignores_merges_ = false;
  TokenizerModel model_;
};

}  // namespace

absl::StatusOr<TokenizerModel> ReadTokenizerModel(checkpoint::JsonReader& json, const JsonChecks& checks,
                                                  int64_t* room) {
  return ModelReader(json, checks, room).Read();
}

}  // namespace snug::core
