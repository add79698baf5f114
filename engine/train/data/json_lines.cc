#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/suggest.h"
#include "engine/base/text/utf8.h"
#include "engine/train/checkpoint/json_reader.h"
#include "engine/train/data/file_bytes.h"
#include "engine/train/data/sources.h"
#include "engine/train/data/tokenizer/tokenizer.h"

namespace snug::core {
namespace {

constexpr absl::string_view kTokens = "tokens", kLabel = "label";
constexpr size_t kMaxLineBytes = size_t{64} << 20;
constexpr int64_t kMaxWhole = int64_t{1} << 53;  // from here on a double does not tell whole numbers apart

struct Line {
  size_t begin = 0, size = 0;  // in bytes
  int64_t number = 0;          // from 1
  int64_t length = 0;          // of its longest field
};

// What a field of one line holds, before it is filled up.
struct Values {
  bool given = false;
  std::vector<double> numbers;
};

int64_t RowsOf(const DataField& field) { return field.type.shape.rank() == 0 ? 1 : field.type.shape[0]; }
int64_t ElementsOfRow(const DataField& field) {
  return field.type.num_elements() / std::max<int64_t>(RowsOf(field), 1);
}

// Reads one line into the Values of each input.
class LineReader {
 public:
  LineReader(const JsonLinesOptions& options, bool next_tokens, absl::string_view text, absl::string_view place)
      : options_(options), next_tokens_(next_tokens), json_(text, 1, place), values_(options.inputs.size()) {}

  absl::Status Read(std::set<std::string>* unread) {
    SNUG_RETURN_IF_ERROR(json_.BeginObject());
    std::string key;
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextKey(&key));
      if (!more) break;
      const size_t input = InputCalled(key);
      if (input == values_.size()) {
        if (unread != nullptr) unread->insert(key);
        SNUG_RETURN_IF_ERROR(json_.Skip());
        keys_.push_back(key);
        continue;
      }
      SNUG_RETURN_IF_ERROR(ReadField(input));
    }
    SNUG_RETURN_IF_ERROR(json_.End());
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!values_[i].given && !IsComputed(options_.inputs[i].field.name)) return FieldMissing(i);
    }
    return next_tokens_ ? MakeLabels() : absl::OkStatus();
  }

  const std::vector<double>& numbers(size_t input) const { return values_[input].numbers; }

  int64_t Length() const {
    int64_t length = 0;
    for (size_t i = 0; i < values_.size(); ++i) {
      const DataField& field = options_.inputs[i].field;
      if (field.name == options_.length || field.type.shape.rank() == 0) continue;
      length = std::max(length, static_cast<int64_t>(values_[i].numbers.size()) / ElementsOfRow(field));
    }
    return length;
  }

 private:
  bool IsComputed(absl::string_view name) const { return name == options_.length || (next_tokens_ && name == kLabel); }

  // Returns the number of inputs if none is called so.
  size_t InputCalled(absl::string_view key) const {
    size_t i = 0;
    while (i < values_.size() && options_.inputs[i].field.name != key) ++i;
    return i;
  }

  absl::Status FieldError(size_t input, absl::string_view message) const {
    return json_.Error(absl::StrCat("field \"", options_.inputs[input].field.name, "\": ", message));
  }

  absl::Status FieldMissing(size_t input) const {
    const std::string& name = options_.inputs[input].field.name;
    Suggester suggester(name);
    for (const std::string& key : keys_) suggester.Consider(key);
    return FieldError(input,
                      absl::StrCat("expected for this input of the network, found none",
                                   suggester.found() ? absl::StrCat("; is \"", suggester.best(), "\" meant?") : ""));
  }

  absl::Status ReadField(size_t input) {
    const DataField& field = options_.inputs[input].field;
    if (values_[input].given) return FieldError(input, "expected once in a line, found twice");
    if (IsComputed(field.name)) {
      return FieldError(input, field.name == options_.length ? "is the length, which is counted: expected no such field"
                                                             : "the first line of the training file has none, so that "
                                                               "labels are the next tokens: expected no such field");
    }
    values_[input].given = true;
    const char next = json_.Peek();
    if (next == '"') return ReadText(input);
    if (next == '[' && field.type.shape.rank() > 0) return ReadList(input, 0);
    if (field.type.shape.rank() > 0) {
      return json_.Expected(absl::StrCat("a list of numbers", field.type.shape.rank() == 1 ? " or a text" : "",
                                         " for field \"", field.name, "\""));
    }
    return ReadNumber(input);
  }

  absl::Status ReadText(size_t input) {
    const DataField& field = options_.inputs[input].field;
    if (field.type.shape.rank() != 1 || IsFloating(field.type.dtype)) {
      return FieldError(input, absl::StrCat("expected numbers for ", field.type.ToString(), ", found a text"));
    }
    SNUG_ASSIGN_OR_RETURN(const std::string text, json_.String());
    if (options_.tokenizer != nullptr) {
      SNUG_RETURN_IF_ERROR(AppendTokens(input, text));
    } else {
      for (const char c : text) SNUG_RETURN_IF_ERROR(Append(input, static_cast<unsigned char>(c)));
    }
    return CheckLength(input);
  }

  absl::Status AppendTokens(size_t input, const std::string& text) {
    const DataField& field = options_.inputs[input].field;
    const int64_t limit = field.type.dtype == DType::kUint8 ? 256 : std::numeric_limits<int32_t>::max();
    const int64_t bound = field.max_value > 0 ? std::min(field.max_value, limit) : limit;
    std::vector<int32_t> tokens;
    options_.tokenizer->Encode(text, &tokens);
    for (const int32_t token : tokens) {
      if (token >= bound) {
        return FieldError(input, absl::StrCat("has token ", token, " by ", options_.tokenizer->path(),
                                              ", and the input takes values below ", bound,
                                              ": expected a max_value of at least ", options_.tokenizer->bound()));
      }
      values_[input].numbers.push_back(token);
    }
    return absl::OkStatus();
  }

  // Numbers may stand in one list, or in as many levels of lists as the input has dimensions. `level` 0 is the
  // outermost.
  absl::Status ReadList(size_t input, int level) {
    const DataField& field = options_.inputs[input].field;
    const Shape& shape = field.type.shape;
    std::vector<double>& numbers = values_[input].numbers;
    const size_t before = numbers.size();
    bool lists = false, first = true;
    SNUG_RETURN_IF_ERROR(json_.BeginArray());
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextElement());
      if (!more) break;
      const bool list = json_.Peek() == '[';
      if (!std::exchange(first, false) && list != lists) {
        return FieldError(input, "expected numbers alone or lists alone, found both in one list");
      }
      lists = list;
      if (list && level + 1 >= shape.rank())
        return json_.Expected(absl::StrCat("a number in field \"", field.name, "\""));
      SNUG_RETURN_IF_ERROR(list ? ReadList(input, level + 1) : ReadNumber(input));
    }
    if (level == 0) return CheckLength(input);
    int64_t expected = 1;
    for (int d = level; d < shape.rank(); ++d) expected *= shape[d];
    const auto found = static_cast<int64_t>(numbers.size() - before);
    if (found == expected) return absl::OkStatus();
    return FieldError(input, absl::StrCat("expected ", expected, " numbers in each inner list, found ", found));
  }

  absl::Status ReadNumber(size_t input) {
    SNUG_ASSIGN_OR_RETURN(const double value, json_.Number());
    return Append(input, value);
  }

  absl::Status Append(size_t input, double value) {
    const DataField& field = options_.inputs[input].field;
    if (IsFloating(field.type.dtype)) {
      if (!std::isfinite(static_cast<float>(value))) {
        return FieldError(input, absl::StrCat("expected a finite float32 number, found ", value));
      }
    } else if (value != static_cast<double>(kIgnoredLabel) || field.type.dtype == DType::kUint8) {
      const bool narrow = field.type.dtype == DType::kInt32;
      int64_t low = narrow ? -(int64_t{1} << 31) : -kMaxWhole + 1, high = narrow ? int64_t{1} << 31 : kMaxWhole;
      if (field.type.dtype == DType::kUint8) low = 0, high = 256;
      if (field.max_value > 0) low = 0, high = std::min(high, field.max_value);
      if (value != std::floor(value) || value < static_cast<double>(low) || value >= static_cast<double>(high)) {
        return FieldError(input,
                          absl::StrCat("expected a whole number from ", low, " to ", high - 1, ", found ", value));
      }
    }
    values_[input].numbers.push_back(value);
    return absl::OkStatus();
  }

  absl::Status CheckLength(size_t input) {
    const DataField& field = options_.inputs[input].field;
    std::vector<double>& numbers = values_[input].numbers;
    const int64_t row = ElementsOfRow(field);
    const auto found = static_cast<int64_t>(numbers.size());
    if (row > 0 && found % row != 0) {
      return FieldError(input, absl::StrCat("expected rows of ", row, " numbers, found ", found, " numbers"));
    }
    // The last token is only a label.
    const int64_t most = field.type.num_elements() + (next_tokens_ && field.name == kTokens ? 1 : 0);
    if (found <= most) return absl::OkStatus();
    if (!options_.truncate) {
      return FieldError(
          input, absl::StrCat("expected at most ", most / row, ", which is what the network takes, found ", found / row,
                              ": `truncate` cuts longer ones"));
    }
    numbers.resize(static_cast<size_t>(most));
    return absl::OkStatus();
  }

  absl::Status MakeLabels() {
    const size_t input = InputCalled(kTokens);
    std::vector<double>& tokens = values_[input].numbers;
    if (tokens.size() < 2) {
      return FieldError(
          input, absl::StrCat("expected at least 2 tokens, of which the last is a label, found ", tokens.size()));
    }
    values_[InputCalled(kLabel)].numbers.assign(tokens.begin() + 1, tokens.end());
    tokens.pop_back();
    return absl::OkStatus();
  }

  const JsonLinesOptions& options_;
  const bool next_tokens_;
  checkpoint::JsonReader json_;
  std::vector<Values> values_;
  std::vector<std::string> keys_;  // of fields that no input is called
};

template <class T>
void FillInto(const std::vector<double>& numbers, const DataField& field, std::byte* to) {
  T* out = reinterpret_cast<T*>(to);
  for (const double number : numbers) *out++ = static_cast<T>(number);
  std::fill_n(out, field.type.num_elements() - static_cast<int64_t>(numbers.size()), static_cast<T>(field.padding));
}

void FillField(const std::vector<double>& numbers, const DataField& field, std::byte* to) {
  switch (field.type.dtype) {
#define SNUG_FILL(enumerator, name, type) \
  case DType::enumerator:                 \
    return FillInto<type>(numbers, field, to);
    SNUG_DTYPES(SNUG_FILL)
#undef SNUG_FILL
  }
}

std::vector<DataField> FieldsOf(const JsonLinesOptions& options) {
  std::vector<DataField> fields;
  for (const JsonLinesInput& input : options.inputs) fields.push_back(input.field);
  return fields;
}

class JsonLinesDataset final : public Dataset {
 public:
  JsonLinesDataset(std::shared_ptr<const FileBytes> file, JsonLinesOptions options, bool next_tokens,
                   std::vector<Line> lines)
      : Dataset(FieldsOf(options), static_cast<int64_t>(lines.size())),
        file_(std::move(file)),
        options_(std::move(options)),
        next_tokens_(next_tokens),
        lines_(std::move(lines)) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> out) const override {
    const Line& line = lines_[static_cast<size_t>(sample)];
    const std::string place = absl::StrCat(file_->path(), ":", line.number, ":");
    LineReader reader(options_, next_tokens_, file_->text().substr(line.begin, line.size), place);
    SNUG_RETURN_IF_ERROR(reader.Read(nullptr));
    for (size_t i = 0; i < out.size(); ++i) {
      const DataField& field = fields()[i];
      if (field.name == options_.length) {
        FillField({static_cast<double>(line.length)}, field, out[i]);
      } else {
        FillField(reader.numbers(i), field, out[i]);
      }
    }
    return absl::OkStatus();
  }

  int64_t LengthOf(int64_t sample) const override { return lines_[static_cast<size_t>(sample)].length; }

 private:
  const std::shared_ptr<const FileBytes> file_;
  const JsonLinesOptions options_;
  const bool next_tokens_;
  const std::vector<Line> lines_;
};

// The input of the length must take every length there may be.
absl::Status CheckLengthInput(const JsonLinesOptions& options) {
  if (options.length.empty()) return absl::OkStatus();
  int64_t most = 0;
  const DataField* length = nullptr;
  Suggester suggester(options.length);
  for (const JsonLinesInput& input : options.inputs) {
    suggester.Consider(input.field.name);
    if (input.field.name == options.length) length = &input.field;
    if (input.field.name != options.length && input.field.type.shape.rank() > 0)
      most = std::max(most, RowsOf(input.field));
  }
  if (length == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("json_lines: length: the network has no input \"", options.length, "\"", suggester.Question()));
  }
  if (IsFloating(length->type.dtype) || length->type.num_elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("json_lines: length: expected an input of one integer a sample, found \"", options.length, "\" ",
                     length->type.ToString()));
  }
  if (length->max_value == 0 || length->max_value > most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("json_lines: length: input \"", options.length,
                                                 "\" takes values below ", length->max_value, ", and samples may be ",
                                                 most, " long"));
}

// Tells whether the labels may be the next tokens, where the file has none.
bool HasRoomForNextTokens(const JsonLinesOptions& options) {
  const DataField *tokens = nullptr, *label = nullptr;
  for (const JsonLinesInput& input : options.inputs) {
    if (input.field.name == kTokens) tokens = &input.field;
    if (input.field.name == kLabel) label = &input.field;
  }
  return tokens != nullptr && label != nullptr && tokens->type.shape.rank() == 1 && tokens->type == label->type &&
         !IsFloating(tokens->type.dtype);
}

// Returns whether the first line, which lies in `text`, has tokens and no label.
absl::StatusOr<bool> LacksLabels(const JsonLinesOptions& options, absl::string_view text, absl::string_view place) {
  if (!HasRoomForNextTokens(options)) return false;
  checkpoint::JsonReader json(text, 1, place);
  SNUG_RETURN_IF_ERROR(json.BeginObject());
  std::string key;
  bool tokens = false, label = false;
  for (;;) {
    SNUG_ASSIGN_OR_RETURN(const bool more, json.NextKey(&key));
    if (!more) return tokens && !label;
    tokens = tokens || key == kTokens;
    label = label || key == kLabel;
    SNUG_RETURN_IF_ERROR(json.Skip());
  }
}

}  // namespace

absl::StatusOr<JsonLines> OpenJsonLines(const std::string& path, const JsonLinesOptions& given) {
  SNUG_RETURN_IF_ERROR(CheckLengthInput(given));
  SNUG_ASSIGN_OR_RETURN(std::shared_ptr<const FileBytes> file, FileBytes::Open(path));
  const absl::string_view all = file->text();
  JsonLinesOptions options = given;
  bool next_tokens = false;
  std::vector<Line> lines;
  std::set<std::string> unread;
  size_t begin = all.substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0;
  for (int64_t number = 1; begin < all.size(); ++number) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    const absl::string_view text = all.substr(begin, end - begin);
    Line line{.begin = std::exchange(begin, end + 1), .size = text.size(), .number = number};
    if (text.find_first_not_of(" \t\r") == absl::string_view::npos) continue;
    const std::string place = absl::StrCat(path, ":", number, ":");
    if (text.size() > kMaxLineBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, " expected a line of at most ", kMaxLineBytes, " bytes, found ", text.size()));
    }
    if (!IsUtf8(text)) {
      size_t good = 0;
      while (const size_t length = Utf8Length(text.substr(good))) good += length;
      return absl::InvalidArgumentError(absl::StrCat(place, good + 1, ": expected UTF-8, found a byte that is none"));
    }
    if (lines.empty()) {
      if (given.next_tokens.has_value()) {
        next_tokens = *given.next_tokens;
      } else {
        SNUG_ASSIGN_OR_RETURN(next_tokens, LacksLabels(options, text, place));
      }
      for (JsonLinesInput& input : options.inputs) {
        if (next_tokens && input.field.name == kLabel && !input.has_padding) input.field.padding = kIgnoredLabel;
      }
    }
    LineReader reader(options, next_tokens, text, place);
    SNUG_RETURN_IF_ERROR(reader.Read(&unread));
    line.length = reader.Length();
    lines.push_back(line);
  }
  if (lines.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":1: expected a JSON object a line, found an empty file"));
  }
  return JsonLines{
      std::make_shared<const JsonLinesDataset>(std::move(file), std::move(options), next_tokens, std::move(lines)),
      {unread.begin(), unread.end()},
      next_tokens};
}

}  // namespace snug::core
