// A strict JSON reader that the caller pulls: it says what must come next, and gets it or an error with the byte where
// it is not. There is no tree and no recursion, so the depth of a hostile text costs nothing.
//
//   JsonReader json(text);
//   SNUG_RETURN_IF_ERROR(json.BeginObject());
//   std::string key;
//   for (;;) {
//     SNUG_ASSIGN_OR_RETURN(const bool more, json.NextKey(&key));
//     if (!more) break;
//     SNUG_ASSIGN_OR_RETURN(const int64_t value, json.Integer());
//   }
//   SNUG_RETURN_IF_ERROR(json.End());
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace snug::checkpoint {

class JsonReader {
 public:
  // `text` must outlive this and be UTF-8. `offset`: where it lies in its file, for the errors.
  explicit JsonReader(absl::string_view text, size_t offset = 0) : text_(text), offset_(offset) {}

  absl::Status BeginObject() { return Begin('{', "an object, '{'"); }
  absl::Status BeginArray() { return Begin('[', "an array, '['"); }
  // Goes on to the next key's value, or over the end of the object: false.
  absl::StatusOr<bool> NextKey(std::string* key);
  // Goes on to the next element, or over the end of the array: false.
  absl::StatusOr<bool> NextElement();
  absl::StatusOr<std::string> String();
  absl::StatusOr<int64_t> Integer();  // whole, not negative
  absl::Status End();                 // nothing but blanks may follow

  // "byte N: expected ..., found ...", of the place where the reader stands.
  absl::Status Expected(absl::string_view what) const;

 private:
  void SkipBlanks();
  bool Take(char c);
  absl::Status Begin(char open, absl::string_view what);
  absl::StatusOr<bool> NextMember(char close, absl::string_view what);
  absl::Status Escape(std::string* out);
  absl::StatusOr<uint32_t> HexDigits();

  absl::string_view text_;
  size_t offset_;
  size_t at_ = 0;
  bool first_ = true;  // nothing of the innermost object or array was read yet
};

// In quotes, with what JSON wants escaped.
std::string JsonQuoted(absl::string_view text);

}  // namespace snug::checkpoint
