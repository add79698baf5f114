#include "engine/train/data/tokenizer/tokenizer.h"

#include <absl/strings/str_cat.h>
#include <absl/types/span.h>

#include <mutex>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/xxh64.h"
#include "engine/train/data/file_bytes.h"
#include "engine/train/data/tokenizer/tokenizer_file.h"

namespace snug::core {

struct Tokenizer::Inside {
  Inside(TokenizerFile&& file, const std::string& file_path)
      : path(file_path),
        pairs(file.bytes, file.merges, std::move(file.whole)),
        before(std::move(file.before)),
        after(std::move(file.after)),
        prefix_space(file.prefix_space),
        pattern(file.pattern),
        bound(file.bound) {
    for (AddedToken& token : file.added) added.Add(std::move(token));
    for (AddedToken& token : file.added_later) added_later.Add(std::move(token));
  }

  void EncodeWords(absl::string_view text, BytePairs::Scratch& scratch, std::vector<int32_t>* tokens) const {
    std::string spaced;
    if (prefix_space && text[0] != ' ') {
      spaced = absl::StrCat(" ", text);
      text = spaced;
    }
    while (!text.empty()) {
      const size_t length = WordLength(pattern, text);
      pairs.Encode(text.substr(0, length), scratch, tokens);
      text.remove_prefix(length);
    }
  }

  std::unique_ptr<BytePairs::Scratch> TakeScratch() const {
    const std::lock_guard<std::mutex> lock(mutex);
    if (idle.empty()) return std::make_unique<BytePairs::Scratch>();
    std::unique_ptr<BytePairs::Scratch> scratch = std::move(idle.back());
    idle.pop_back();
    return scratch;
  }

  void GiveBack(std::unique_ptr<BytePairs::Scratch> scratch) const {
    const std::lock_guard<std::mutex> lock(mutex);
    idle.push_back(std::move(scratch));
  }

  std::string path, digest;
  BytePairs pairs;
  AddedTokens added, added_later;
  std::vector<int32_t> before, after;
  bool prefix_space;
  WordPattern pattern;
  int64_t bound;
  mutable std::mutex mutex;  // guards `idle`: one for each thread that has encoded at the same time as others
  mutable std::vector<std::unique_ptr<BytePairs::Scratch>> idle;
};

Tokenizer::Tokenizer(std::unique_ptr<const Inside> inside) : inside_(std::move(inside)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::Open(const std::string& path) {
  SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<const FileBytes> file, FileBytes::Open(path));
  SNUG_ASSIGN_OR_RETURN(TokenizerFile parsed, ParseTokenizer(file->text(), path));
  auto inside = std::make_unique<Inside>(std::move(parsed), path);
  Xxh64 checksum;
  checksum.Add({reinterpret_cast<const std::byte*>(file->bytes().data()), file->bytes().size()});
  inside->digest = absl::StrCat(absl::Hex(checksum.Digest(), absl::kZeroPad16));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(inside)));
}

void Tokenizer::Encode(absl::string_view text, std::vector<int32_t>* tokens) const {
  std::unique_ptr<BytePairs::Scratch> scratch = inside_->TakeScratch();
  tokens->insert(tokens->end(), inside_->before.begin(), inside_->before.end());
  for (const AddedTokens::Piece& piece : inside_->added.Split(text)) {
    if (piece.id >= 0) {
      tokens->push_back(piece.id);
      continue;
    }
    for (const AddedTokens::Piece& inner : inside_->added_later.Split(piece.text)) {
      if (inner.id >= 0) {
        tokens->push_back(inner.id);
      } else {
        inside_->EncodeWords(inner.text, *scratch, tokens);
      }
    }
  }
  tokens->insert(tokens->end(), inside_->after.begin(), inside_->after.end());
  inside_->GiveBack(std::move(scratch));
}

int64_t Tokenizer::bound() const { return inside_->bound; }
const std::string& Tokenizer::path() const { return inside_->path; }
const std::string& Tokenizer::digest() const { return inside_->digest; }

}  // namespace snug::core
