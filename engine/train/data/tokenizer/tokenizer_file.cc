#include "engine/train/data/tokenizer/tokenizer_file.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/utf8.h"
#include "engine/train/checkpoint/json_reader.h"
#include "engine/train/data/tokenizer/json_checks.h"
#include "engine/train/data/tokenizer/json_value.h"
#include "engine/train/data/tokenizer/tokenizer_model.h"
#include "engine/train/data/tokenizer/unicode_classes.h"

namespace snug::core {
namespace {

using checkpoint::JsonQuoted;

constexpr int64_t kMaxValues = int64_t{1} << 20;  // in all but the model
constexpr size_t kMostAround = 64;                // pieces put around a text, and tokens of each

// All but the model is small: it is read as it is, and checked once everything is there, since parts come in any
// sequence.
class TokenizerReader : private JsonChecks {
 public:
  TokenizerReader(absl::string_view text, const std::string& path) : JsonChecks(path), json_(text, 0, place()) {}

  absl::StatusOr<TokenizerFile> Read() {
    SNUG_RETURN_IF_ERROR(json_.BeginObject());
    std::string key;
    bool has_model = false;
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextKey(&key));
      if (!more) break;
      if (key == "model") {
        if (std::exchange(has_model, true)) return json_.Error("expected \"model\" once, found it twice");
        SNUG_ASSIGN_OR_RETURN(model_, ReadTokenizerModel(json_, *this, &room_));
        continue;
      }
      if (parts_.Find(key) != nullptr) {
        return json_.Error(absl::StrCat("expected ", JsonQuoted(key), " once, found it twice"));
      }
      if (std::find(kParts.begin(), kParts.end(), key) == kParts.end()) return Unknown(json_.at(), "", key, kParts);
      SNUG_ASSIGN_OR_RETURN(JsonValue value, ReadJsonValue(json_, &room_));
      parts_.members.emplace_back(key, std::move(value));
    }
    SNUG_RETURN_IF_ERROR(json_.End());
    if (!has_model) return ErrorOfFile("expected \"model\", found none");
    SNUG_RETURN_IF_ERROR(CheckUnused());
    SNUG_RETURN_IF_ERROR(ReadAddedTokens());
    SNUG_RETURN_IF_ERROR(ReadPreTokenizer());
    if (const JsonValue* part = Part("post_processor"); part != nullptr) {
      SNUG_RETURN_IF_ERROR(ReadPostProcessor(*part, /*within_sequence=*/false));
    }
    file_.bytes = model_.bytes;
    file_.merges = std::move(model_.merges);
    file_.whole = std::move(model_.whole);
    file_.bound = std::max(file_.bound, model_.bound);
    return std::move(file_);
  }

 private:
  static constexpr std::array<absl::string_view, 8> kParts = {
      "version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"};

  // Returns null where the part is missing or null.
  const JsonValue* Part(absl::string_view name) const {
    const JsonValue* part = parts_.Find(name);
    return part == nullptr || part->null() ? nullptr : part;
  }

  // What would change the tokens, and is not done here.
  absl::Status CheckUnused() const {
    const JsonValue* version = parts_.Find("version");
    if (version != nullptr && version->text != "1.0") {
      return Error(version->at, absl::StrCat("version: expected \"1.0\", found ", version->Describe()));
    }
    if (const JsonValue* part = Part("truncation"); part != nullptr) {
      return Error(part->at, "truncation: expected null: the option `truncate` of json_lines cuts samples");
    }
    if (const JsonValue* part = Part("padding"); part != nullptr) {
      return Error(part->at, "padding: expected null: samples are filled up by the option `padding` of json_lines");
    }
    if (const JsonValue* part = Part("normalizer"); part != nullptr) return Refuse("normalizer", *part, "null");
    const JsonValue* decoder = Part("decoder");
    if (decoder != nullptr && TypeOf(*decoder) != "ByteLevel") return Refuse("decoder", *decoder, "\"ByteLevel\"");
    return absl::OkStatus();
  }

  absl::Status ReadAddedTokens() {
    const JsonValue* part = Part("added_tokens");
    if (part == nullptr) return absl::OkStatus();
    if (part->kind != JsonValue::Kind::kArray) {
      return Error(part->at, absl::StrCat("added_tokens: expected a list, found ", part->Describe()));
    }
    for (const JsonValue& value : part->elements) SNUG_RETURN_IF_ERROR(ReadAddedToken(value));
    return absl::OkStatus();
  }

  absl::Status ReadAddedToken(const JsonValue& value) {
    static constexpr absl::string_view kWhat = "added_tokens";
    static constexpr std::array<absl::string_view, 7> kKnown = {"id",     "content",    "single_word", "lstrip",
                                                                "rstrip", "normalized", "special"};
    SNUG_RETURN_IF_ERROR(CheckObject(kWhat, value, kKnown));
    AddedToken token;
    SNUG_ASSIGN_OR_RETURN(token.id, IdOf(kWhat, value, "id"));
    SNUG_ASSIGN_OR_RETURN(token.text, Text(kWhat, value, "content"));
    SNUG_ASSIGN_OR_RETURN(const bool single_word, Flag(kWhat, value, "single_word", false));
    SNUG_ASSIGN_OR_RETURN(token.takes_blanks_before, Flag(kWhat, value, "lstrip", false));
    SNUG_ASSIGN_OR_RETURN(token.takes_blanks_after, Flag(kWhat, value, "rstrip", false));
    SNUG_ASSIGN_OR_RETURN(const bool special, Flag(kWhat, value, "special", false));
    SNUG_ASSIGN_OR_RETURN(const bool normalized, Flag(kWhat, value, "normalized", !special));
    const std::string name = absl::StrCat(kWhat, ": ", JsonQuoted(token.text.substr(0, 100)), ": ");
    if (token.text.empty() || token.text.size() > AddedTokens::kLongest) {
      return Error(value.at, absl::StrCat(kWhat, ".content: expected 1 to ", AddedTokens::kLongest, " bytes, found ",
                                          token.text.size()));
    }
    if (single_word) {
      return Error(value.at, absl::StrCat(name, "single_word: expected false, found true: ", kWhatIsRead));
    }
    if (token.takes_blanks_after && AllBlank(token.text)) {
      return Error(value.at, absl::StrCat(name, "rstrip: expected false for a token of blanks, found true"));
    }
    if (!added_.insert(token.text).second) return Error(value.at, absl::StrCat(name, "expected once, found it twice"));
    SNUG_RETURN_IF_ERROR(CheckAddedId(value, name, token));
    (normalized ? file_.added_later : file_.added).push_back(std::move(token));
    return absl::OkStatus();
  }

  // A token that is in the vocabulary has its id there, and the others follow. The package tokenizers numbers them so,
  // whatever the file says.
  absl::Status CheckAddedId(const JsonValue& value, absl::string_view name, const AddedToken& token) {
    const auto size = static_cast<int64_t>(model_.vocabulary.size());
    const auto found = model_.vocabulary.find(token.text);
    const int64_t id = found != model_.vocabulary.end() ? found->second : std::max(size, most_added_ + 1);
    if (token.id != id) {
      return Error(value.at, absl::StrCat(name, "expected the id ", id,
                                          found != model_.vocabulary.end() ? ", which it has in the vocabulary"
                                                                           : ", the next one",
                                          "; found ", token.id));
    }
    if (found == model_.vocabulary.end() && !model_.ids.insert(token.id).second) {
      return Error(value.at, absl::StrCat(name, "expected an id of its own, found ", id, ", which is another's too"));
    }
    most_added_ = std::max(most_added_, id);
    file_.bound = std::max(file_.bound, id + 1);
    return absl::OkStatus();
  }

  static bool AllBlank(absl::string_view text) {
    while (!text.empty()) {
      const Character next = FirstCharacter(text);
      if (next.kind != CharacterClass::kBlank) return false;
      text.remove_prefix(next.bytes);
    }
    return true;
  }

  absl::Status ReadPreTokenizer() {
    static constexpr absl::string_view kWhat = "pre_tokenizer";
    static constexpr std::array<absl::string_view, 2> kKnown = {"type", "pretokenizers"};
    const JsonValue* part = Part(kWhat);
    if (part == nullptr) {
      return ErrorOfFile(absl::StrCat("pre_tokenizer: expected \"ByteLevel\", found none: ", kWhatIsRead));
    }
    const std::string type = TypeOf(*part);
    if (type == "ByteLevel") return ReadByteLevel(*part, /*after_split=*/false);
    if (type != "Sequence")
      return Refuse(kWhat, *part, "\"ByteLevel\", or \"Sequence\" of \"Split\" and \"ByteLevel\"");
    SNUG_RETURN_IF_ERROR(CheckObject(kWhat, *part, kKnown));
    SNUG_ASSIGN_OR_RETURN(const JsonValue* const steps, List(kWhat, *part, "pretokenizers"));
    if (steps->elements.empty() || steps->elements.size() > 2) {
      return Error(part->at, absl::StrCat(kWhat, ".pretokenizers: expected \"Split\" and \"ByteLevel\", found ",
                                          steps->elements.size(), " elements"));
    }
    if (steps->elements.size() == 2) SNUG_RETURN_IF_ERROR(ReadSplit(steps->elements[0]));
    return ReadByteLevel(steps->elements.back(), steps->elements.size() == 2);
  }

  absl::Status ReadSplit(const JsonValue& split) {
    static constexpr absl::string_view kWhat = "pre_tokenizer.Split";
    static constexpr std::array<absl::string_view, 4> kKnown = {"type", "pattern", "behavior", "invert"};
    static constexpr std::array<absl::string_view, 1> kRegex = {"Regex"};
    if (TypeOf(split) != "Split") return Refuse("pre_tokenizer", split, "\"Split\"");
    SNUG_RETURN_IF_ERROR(CheckObject(kWhat, split, kKnown));
    SNUG_ASSIGN_OR_RETURN(const std::string behavior, Text(kWhat, split, "behavior"));
    if (behavior != "Isolated") {
      return Error(split.at, absl::StrCat(kWhat, ".behavior: expected \"Isolated\", found ", JsonQuoted(behavior), ": ",
                                          kWhatIsRead));
    }
    SNUG_ASSIGN_OR_RETURN(const bool invert, Flag(kWhat, split, "invert", std::nullopt));
    if (invert) return Error(split.at, absl::StrCat(kWhat, ".invert: expected false, found true: ", kWhatIsRead));
    const JsonValue* pattern = split.Find("pattern");
    if (pattern == nullptr) return Error(split.at, absl::StrCat(kWhat, ": expected \"pattern\", found none"));
    SNUG_RETURN_IF_ERROR(CheckObject("pre_tokenizer.Split.pattern", *pattern, kRegex));
    SNUG_ASSIGN_OR_RETURN(const std::string regex, Text("pre_tokenizer.Split.pattern", *pattern, "Regex"));
    for (const WordPattern known : {WordPattern::kGpt2, WordPattern::kLlama3, WordPattern::kQwen2}) {
      if (regex != RegexOf(known)) continue;
      file_.pattern = known;
      return absl::OkStatus();
    }
    return Error(pattern->at, absl::StrCat("pre_tokenizer.Split.pattern: expected that of GPT-2, Llama 3 or Qwen 2 to "
                                           "the letter, found ",
                                           JsonQuoted(regex)));
  }

  // After a Split, which has cut the words, this only stands for bytes.
  absl::Status ReadByteLevel(const JsonValue& value, bool after_split) {
    static constexpr absl::string_view kWhat = "pre_tokenizer.ByteLevel";
    static constexpr std::array<absl::string_view, 4> kKnown = {"type", "add_prefix_space", "trim_offsets",
                                                                "use_regex"};
    if (TypeOf(value) != "ByteLevel") return Refuse("pre_tokenizer", value, "\"ByteLevel\"");
    SNUG_RETURN_IF_ERROR(CheckObject(kWhat, value, kKnown));
    SNUG_ASSIGN_OR_RETURN(file_.prefix_space, Flag(kWhat, value, "add_prefix_space", std::nullopt));
    SNUG_ASSIGN_OR_RETURN(const bool regex, Flag(kWhat, value, "use_regex", true));
    if (!after_split) {
      if (regex) file_.pattern = WordPattern::kGpt2;
      return absl::OkStatus();
    }
    if (!file_.prefix_space && !regex) return absl::OkStatus();
    return Error(value.at, absl::StrCat(kWhat,
                                        ": expected add_prefix_space and use_regex to be false after a Split, "
                                        "found ",
                                        regex ? "use_regex" : "add_prefix_space", ": true: ", kWhatIsRead));
  }

  absl::Status ReadPostProcessor(const JsonValue& value, bool within_sequence) {
    static constexpr absl::string_view kWhat = "post_processor";
    static constexpr std::array<absl::string_view, 2> kSequence = {"type", "processors"};
    const std::string type = TypeOf(value);
    if (type == "ByteLevel") return absl::OkStatus();  // it only moves the places of tokens, which are not kept here
    if (type == "TemplateProcessing") return ReadTemplate(value);
    if (type != "Sequence" || within_sequence) {
      return Refuse(kWhat, value, "null, \"ByteLevel\", \"TemplateProcessing\", or a \"Sequence\" of them");
    }
    SNUG_RETURN_IF_ERROR(CheckObject(kWhat, value, kSequence));
    SNUG_ASSIGN_OR_RETURN(const JsonValue* const steps, List(kWhat, value, "processors"));
    for (const JsonValue& step : steps->elements) {
      SNUG_RETURN_IF_ERROR(ReadPostProcessor(step, /*within_sequence=*/true));
    }
    return absl::OkStatus();
  }

  // What is put around one text: "<|begin_of_text|> $A". What is put around two is not needed here.
  absl::Status ReadTemplate(const JsonValue& value) {
    static constexpr absl::string_view kWhat = "post_processor.TemplateProcessing";
    static constexpr std::array<absl::string_view, 4> kKnown = {"type", "single", "pair", "special_tokens"};
    SNUG_RETURN_IF_ERROR(CheckObject(kWhat, value, kKnown));
    if (std::exchange(has_template_, true)) return Error(value.at, absl::StrCat(kWhat, ": expected once, found twice"));
    SNUG_ASSIGN_OR_RETURN(const JsonValue* const single, List(kWhat, value, "single"));
    if (single->elements.size() > kMostAround) {
      return Error(single->at, absl::StrCat(kWhat, ".single: expected at most ", kMostAround, " pieces, found ",
                                            single->elements.size()));
    }
    int texts = 0;
    for (const JsonValue& piece : single->elements) {
      const JsonValue* text = piece.Find("Sequence");
      const JsonValue* token = piece.Find("SpecialToken");
      if (text != nullptr) {
        SNUG_ASSIGN_OR_RETURN(const std::string name, Text("Sequence", *text, "id"));
        if (name != "A" || ++texts > 1) {
          return Error(piece.at, absl::StrCat(kWhat, ".single: expected the text once, as \"A\""));
        }
      } else if (token != nullptr) {
        SNUG_ASSIGN_OR_RETURN(const std::string name, Text("SpecialToken", *token, "id"));
        SNUG_RETURN_IF_ERROR(AddAround(value, name, texts == 0 ? &file_.before : &file_.after));
      } else {
        return Error(piece.at, absl::StrCat(kWhat, ".single: expected \"Sequence\" or \"SpecialToken\", found ",
                                            piece.Describe()));
      }
    }
    if (texts == 1) return absl::OkStatus();
    return Error(single->at, absl::StrCat(kWhat, ".single: expected the text once, as \"A\", found none"));
  }

  absl::Status AddAround(const JsonValue& value, const std::string& name, std::vector<int32_t>* tokens) {
    const JsonValue* all = value.Find("special_tokens");
    const JsonValue* token = all == nullptr ? nullptr : all->Find(name);
    const std::string what = absl::StrCat("post_processor.TemplateProcessing.special_tokens: ", JsonQuoted(name));
    SNUG_ASSIGN_OR_RETURN(const JsonValue* const ids, List(what, token == nullptr ? value : *token, "ids"));
    if (ids->elements.size() > kMostAround) {
      return Error(ids->at,
                   absl::StrCat(what, ": expected at most ", kMostAround, " tokens, found ", ids->elements.size()));
    }
    for (const JsonValue& one : ids->elements) {
      SNUG_ASSIGN_OR_RETURN(const int32_t id, Id(what, one));
      if (model_.ids.count(id) == 0) {
        return Error(one.at, absl::StrCat(what, ": expected the id of a token, found ", id, ", which is none"));
      }
      tokens->push_back(id);
    }
    return absl::OkStatus();
  }

  checkpoint::JsonReader json_;
  int64_t room_ = kMaxValues;
  JsonValue parts_ = {.kind = JsonValue::Kind::kObject};  // all but the model
  TokenizerModel model_;
  bool has_template_ = false;
  std::unordered_set<std::string> added_;
  int64_t most_added_ = -1;  // the largest id of an added token so far
  TokenizerFile file_;
};

}  // namespace

absl::StatusOr<TokenizerFile> ParseTokenizer(absl::string_view text, const std::string& path) {
  size_t good = 0;
  while (const size_t length = Utf8Length(text.substr(good))) good += length;
  if (good < text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": byte ", good, ": expected UTF-8, found a byte that is none"));
  }
  return TokenizerReader(text, path).Read();
}

}  // namespace snug::core
