#include "engine/train/data/tokenizer/json_checks.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>

#include "engine/train/checkpoint/json_reader.h"

namespace snug::core {
namespace {

std::string Found(const JsonValue* value) { return value == nullptr ? "none" : value->Describe(); }

size_t PlaceOf(const JsonValue* value, const JsonValue& object) { return value == nullptr ? object.at : value->at; }

}  // namespace

absl::Status JsonChecks::Error(size_t at, absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(place_, at, ": ", message));
}

absl::Status JsonChecks::ErrorOfFile(absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ": ", message));
}

absl::Status JsonChecks::Unknown(size_t at, absl::string_view what, absl::string_view key, Names known) const {
  return Error(at, absl::StrCat(what, what.empty() ? "" : ": ", "expected one of ", absl::StrJoin(known, ", "),
                                "; found ", checkpoint::JsonQuoted(key), ", which is not known here"));
}

absl::Status JsonChecks::Refuse(absl::string_view what, const JsonValue& found, absl::string_view expected) const {
  return Error(found.at, absl::StrCat(what, ": expected ", expected, ", found ", found.Describe(), ": ", kWhatIsRead));
}

absl::Status JsonChecks::CheckObject(absl::string_view what, const JsonValue& value, Names known) const {
  if (value.kind != JsonValue::Kind::kObject) {
    return Error(value.at, absl::StrCat(what, ": expected an object, found ", value.Describe()));
  }
  for (const auto& [key, member] : value.members) {
    if (std::find(known.begin(), known.end(), key) == known.end()) return Unknown(member.at, what, key, known);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> JsonChecks::Flag(absl::string_view what, const JsonValue& object, absl::string_view key,
                                      std::optional<bool> otherwise) const {
  const JsonValue* const value = object.Find(key);
  if (value == nullptr && otherwise.has_value()) return *otherwise;
  if (value != nullptr && value->kind == JsonValue::Kind::kBool) return value->boolean;
  return Error(PlaceOf(value, object), absl::StrCat(what, ".", key, ": expected true or false, found ", Found(value)));
}

absl::StatusOr<std::string> JsonChecks::Text(absl::string_view what, const JsonValue& object,
                                             absl::string_view key) const {
  const JsonValue* const value = object.Find(key);
  if (value != nullptr && value->kind == JsonValue::Kind::kString) return value->text;
  return Error(PlaceOf(value, object), absl::StrCat(what, ".", key, ": expected a text, found ", Found(value)));
}

absl::StatusOr<const JsonValue*> JsonChecks::List(absl::string_view what, const JsonValue& object,
                                                  absl::string_view key) const {
  const JsonValue* const value = object.Find(key);
  if (value != nullptr && value->kind == JsonValue::Kind::kArray) return value;
  return Error(PlaceOf(value, object), absl::StrCat(what, ".", key, ": expected a list, found ", Found(value)));
}

absl::StatusOr<int32_t> JsonChecks::Id(absl::string_view what, const JsonValue& value) const {
  if (value.kind == JsonValue::Kind::kNumber && value.number == std::floor(value.number) && value.number >= 0 &&
      value.number <= static_cast<double>(kMaxId)) {
    return static_cast<int32_t>(value.number);
  }
  return Error(value.at,
               absl::StrCat(what, ": expected a whole number from 0 to ", kMaxId, ", found ", value.Describe()));
}

absl::StatusOr<int32_t> JsonChecks::IdOf(absl::string_view what, const JsonValue& object, absl::string_view key) const {
  const JsonValue* const value = object.Find(key);
  const std::string name = absl::StrCat(what, ".", key);
  if (value != nullptr) return Id(name, *value);
  return Error(object.at, absl::StrCat(name, ": expected a whole number, found none"));
}

std::string JsonChecks::TypeOf(const JsonValue& value) {
  const JsonValue* const type = value.Find("type");
  return type != nullptr && type->kind == JsonValue::Kind::kString ? type->text : "";
}

}  // namespace snug::core
