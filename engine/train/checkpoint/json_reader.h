// A strict JSON reader that the caller drives: the caller says what must come next, and gets it, or an error with the
// byte where something else stands. There is no tree, and what is passed over is nested to a limit, so a
// hostile text gains nothing by nesting deeply.
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

namespace snug::core::checkpoint {

class JsonReader {
 public:
  // `text` and `place` must outlive this, and `text` must be UTF-8. `offset` is where it lies in its file, and `place`
  // what stands before that number, for errors: "byte 12", or "data.jsonl:3:12".
  explicit JsonReader(absl::string_view text, size_t offset = 0, absl::string_view place = "byte ")
      : text_(text), offset_(offset), place_(place) {}

  absl::Status BeginObject() { return Begin('{', "an object, '{'"); }
  absl::Status BeginArray() { return Begin('[', "an array, '['"); }
  // Goes on to the next key's value and returns true, or leaves the object and returns false.
  absl::StatusOr<bool> NextKey(std::string* key);
  // Goes on to the next element and returns true, or leaves the array and returns false.
  absl::StatusOr<bool> NextElement();
  absl::StatusOr<std::string> String();
  absl::StatusOr<int64_t> Integer();  // a whole number, not negative
  absl::StatusOr<double> Number();    // any number that a double can hold
  // Returns the first character of what comes next, blanks aside; '\0' at the end.
  char Peek();
  // Goes past a value of any kind, nested no deeper than `depth`.
  absl::Status Skip(int depth = 64);
  absl::Status End();  // expects that only blanks follow

  size_t at() const { return offset_ + at_; }  // where the reader stands

  // Returns "byte N: MESSAGE" for the place where the reader stands.
  absl::Status Error(absl::string_view message) const;
  // Returns "byte N: expected ..., found ..." for the place where the reader stands.
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
  absl::string_view place_;
  size_t at_ = 0;
  bool first_ = true;  // nothing of the innermost object or array was read yet
};

// Returns the text in quotes, with escapes where JSON needs them.
std::string JsonQuoted(absl::string_view text);

}  // namespace snug::core::checkpoint
