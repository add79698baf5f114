// Writes one JSON document, in the order of the calls.
//
//   Json json;
//   json.Object().Key("losses").Array().Number(2.3).Number(2.2).End().Key("threads").Number(2).End();
//   puts(json.text().c_str());
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace snug::core {

class Json {
 public:
  Json& Object() { return Open('{', '}'); }
  Json& Array() { return Open('[', ']'); }
  Json& End();
  Json& Key(absl::string_view key);
  Json& String(absl::string_view value);
  Json& Number(int64_t value);
  Json& Number(double value);  // the fewest digits that read back the same; null for NaN and infinities, which JSON
                               // lacks
  Json& Bool(bool value);
  Json& Null();

  const std::string& text() const { return text_; }

 private:
  Json& Open(char open, char close);
  void Separate();
  void Quote(absl::string_view value);

  std::string text_;
  std::vector<char> closers_;
  bool first_ = true;  // whether the innermost array or object is still empty
  bool after_key_ = false;
};

}  // namespace snug::core
