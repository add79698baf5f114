// A JSON value as a tree, for the parts of a file that are small and come in any sequence.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/checkpoint/json_reader.h"

namespace snug::core {

struct JsonValue {
  enum class Kind : uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  size_t at = 0;  // where it begins, in bytes
  bool boolean = false;
  double number = 0;
  std::string text;
  std::vector<JsonValue> elements;
  std::vector<std::pair<std::string, JsonValue>> members;  // no key comes twice

  bool null() const { return kind == Kind::kNull; }
  const JsonValue* Find(absl::string_view key) const;  // null where there is no such member
  std::string Describe() const;                        // for messages: "null", "\"text\"", "an object"
};

// Reads the value that comes next. It may be nested 32 deep; `*room` values may still be read, so that a hostile file
// does not take many times its own bytes.
absl::StatusOr<JsonValue> ReadJsonValue(checkpoint::JsonReader& json, int64_t* room, int depth = 32);

}  // namespace snug::core
