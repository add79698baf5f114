// Makes the tokens of a text as a Hugging Face file `tokenizer.json` says: byte-level BPE, as of GPT-2, Llama 3 and
// Qwen 2. The tokens are those that the package tokenizers makes of the same file and text.
//
//   SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::Open("tokenizer.json"));
//   std::vector<int32_t> tokens;
//   tokenizer->Encode("hello world", &tokens);
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace snug::core {

// Thread-safe.
class Tokenizer {
 public:
  // Whatever the file asks for that is not done here is refused by its name. Errors begin with the path, and say at
  // which byte.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> Open(const std::string& path);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Appends the tokens of `text`, which is UTF-8, and those that the file puts around every text.
  void Encode(absl::string_view text, std::vector<int32_t>* tokens) const;

  int64_t bound() const;  // all tokens lie in [0, bound)
  const std::string& path() const;
  const std::string& digest() const;  // a checksum of the file, to know it by

 private:
  struct Inside;
  explicit Tokenizer(std::unique_ptr<const Inside> inside);

  std::unique_ptr<const Inside> inside_;
};

}  // namespace snug::core
