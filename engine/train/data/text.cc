#include <absl/strings/str_cat.h>
#include <absl/types/span.h>

#include <limits>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/utf8.h"
#include "engine/train/data/file_bytes.h"
#include "engine/train/data/sources.h"
#include "engine/train/data/tokenizer/tokenizer.h"

namespace snug::core {
namespace {

constexpr int64_t kMostBytes = std::numeric_limits<int32_t>::max();  // of a text that is cut into tokens

// A row of tokens, bytes or wider, which `owner` keeps in memory.
template <class Token>
struct TokenRow {
  std::shared_ptr<const void> owner;
  absl::Span<const Token> tokens;
  int64_t bound = 0;
};

// How windows lie in a part of the row.
struct Windows {
  int64_t begin = 0;
  int64_t of_row = 0, rows = 1;
  int64_t length = 0, stride = 0;
};

template <class Token>
class TextDataset final : public Dataset {
 public:
  TextDataset(TokenRow<Token> row, const Windows& windows)
      : Dataset(
            {{.name = "tokens", .type = {.dtype = DType::kInt32, .shape = {windows.length}}, .max_value = row.bound},
             {.name = "label",
              .type = {.dtype = DType::kInt32, .shape = {windows.length}},
              .max_value = row.bound,
              .padding = kIgnoredLabel}},
            windows.of_row * windows.rows),
        row_(std::move(row)),
        windows_(windows) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    const int64_t number = sample % windows_.rows * windows_.of_row + sample / windows_.rows;
    const Token* window = row_.tokens.data() + windows_.begin + number * windows_.stride;
    auto* tokens = reinterpret_cast<int32_t*>(fields[0]);
    auto* labels = reinterpret_cast<int32_t*>(fields[1]);
    for (int64_t i = 0; i < windows_.length; ++i) {
      tokens[i] = window[i];
      labels[i] = window[i + 1];
    }
    return absl::OkStatus();
  }

 private:
  const TokenRow<Token> row_;
  const Windows windows_;
};

// `unit` is what tokens are called: "byte" or "token".
template <class Token>
absl::StatusOr<std::shared_ptr<const Dataset>> OpenWindows(const std::string& path, TokenRow<Token> row,
                                                           absl::string_view unit, const TextOptions& options) {
  const auto size = static_cast<double>(row.tokens.size());
  const auto end = static_cast<int64_t>(options.to * size);
  Windows windows{.begin = static_cast<int64_t>(options.from * size),
                  .rows = options.rows,
                  .length = options.length,
                  .stride = options.stride == 0 ? options.length : options.stride};
  const auto ends_here = [&](absl::string_view message) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", unit, " ", end, ": the text ends here", message));
  };
  // The last label of the last window needs a token too.
  const int64_t room = end - windows.begin - (options.length + 1);
  if (room < 0) {
    return ends_here(absl::StrCat(", expected at least ", options.length + 1, " ", unit, "s from ", unit, " ",
                                  windows.begin, " on (a window of ", options.length, " and the ", unit,
                                  " after it): use a longer text or a shorter window"));
  }
  windows.of_row = (room / windows.stride + 1) / options.rows;
  if (windows.of_row < 1) {
    return ends_here(absl::StrCat(" after ", room / windows.stride + 1, " windows of ", options.length, " ", unit,
                                  "s, expected at least one for each of ", options.rows, " rows"));
  }
  return std::make_shared<const TextDataset<Token>>(std::move(row), windows);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TextTokens>> ReadTokens(const std::string& path, const Tokenizer& tokenizer) {
  SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<const FileBytes> file, FileBytes::Open(path));
  if (file->size() > kMostBytes) {
    return file->Error(kMostBytes, absl::StrCat("expected at most ", kMostBytes, " bytes for a tokenizer, found ",
                                                file->size(), ": their tokens are kept in memory"));
  }
  const absl::string_view text = file->text();
  int64_t good = 0;
  while (const size_t length = Utf8Length(text.substr(static_cast<size_t>(good)))) {
    good += static_cast<int64_t>(length);
  }
  if (good < file->size()) {
    return file->Error(good, "expected UTF-8, which a tokenizer takes, found a byte that is none");
  }
  auto tokens = std::make_shared<TextTokens>();
  tokens->bound = tokenizer.bound();
  tokens->file_bytes = file->size();
  tokenizer.Encode(text, &tokens->tokens);
  return tokens;
}

absl::StatusOr<std::shared_ptr<const Dataset>> OpenText(const std::string& path, const TextOptions& options) {
  const int64_t stride = options.stride == 0 ? options.length : options.stride;
  if (options.length < 1 || stride < 1) {
    return absl::InvalidArgumentError(absl::StrCat("text windows: expected a length and a stride of at least 1, found ",
                                                   options.length, " and ", stride));
  }
  if (options.rows < 1) {
    return absl::InvalidArgumentError(absl::StrCat("text rows: expected at least 1, found ", options.rows));
  }
  if (!(options.from >= 0 && options.from < options.to && options.to <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("part of a text: expected 0 <= from < to <= 1, found ", options.from, " to ", options.to));
  }
  if (options.tokens != nullptr) {
    return OpenWindows<int32_t>(path, {options.tokens, options.tokens->tokens, options.tokens->bound}, "token",
                                options);
  }
  SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<const FileBytes> file, FileBytes::Open(path));
  constexpr int64_t kBytes = 256;
  return OpenWindows<uint8_t>(path, {file, file->bytes(), kBytes}, "byte", options);
}

}  // namespace snug::core
