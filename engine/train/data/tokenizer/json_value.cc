#include "engine/train/data/tokenizer/json_value.h"

#include <absl/strings/str_cat.h>

#include <unordered_set>

#include "engine/base/status.h"

namespace snug::core {

const JsonValue* JsonValue::Find(absl::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string JsonValue::Describe() const {
  constexpr size_t kShown = 80;
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return boolean ? "true" : "false";
    case Kind::kNumber:
      return absl::StrCat(number);
    case Kind::kString:
      return checkpoint::JsonQuoted(text.size() > kShown ? absl::StrCat(text.substr(0, kShown), "...") : text);
    case Kind::kArray:
      return "a list";
    case Kind::kObject:
      break;
  }
  const JsonValue* type = Find("type");
  return type != nullptr && type->kind == Kind::kString ? type->Describe() : "an object";
}

absl::StatusOr<JsonValue> ReadJsonValue(checkpoint::JsonReader& json, int64_t* room, int depth) {
  if (depth == 0) return json.Error("expected values that are not nested so deeply");
  if (--*room < 0) return json.Error("expected fewer values");
  const char next = json.Peek();
  JsonValue value{.at = json.at()};
  if (next == '"') {
    value.kind = JsonValue::Kind::kString;
    SNUG_ASSIGN_OR_RETURN(value.text, json.String());
    return value;
  }
  if (next == '[') {
    value.kind = JsonValue::Kind::kArray;
    SNUG_RETURN_IF_ERROR(json.BeginArray());
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json.NextElement());
      if (!more) return value;
      SNUG_ASSIGN_OR_RETURN(value.elements.emplace_back(), ReadJsonValue(json, room, depth - 1));
    }
  }
  if (next == '{') {
    value.kind = JsonValue::Kind::kObject;
    SNUG_RETURN_IF_ERROR(json.BeginObject());
    std::unordered_set<std::string> keys;
    std::string key;
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json.NextKey(&key));
      if (!more) return value;
      if (!keys.insert(key).second) {
        return json.Error(absl::StrCat("expected ", checkpoint::JsonQuoted(key), " once, found it twice"));
      }
      SNUG_ASSIGN_OR_RETURN(JsonValue member, ReadJsonValue(json, room, depth - 1));
      value.members.emplace_back(key, std::move(member));
    }
  }
  if (next == 't' || next == 'f' || next == 'n') {
    SNUG_RETURN_IF_ERROR(json.Skip());  // checks that it is one of the three words
    value.kind = next == 'n' ? JsonValue::Kind::kNull : JsonValue::Kind::kBool;
    value.boolean = next == 't';
    return value;
  }
  value.kind = JsonValue::Kind::kNumber;
  SNUG_ASSIGN_OR_RETURN(value.number, json.Number());
  return value;
}

}  // namespace snug::core
