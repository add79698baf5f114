// Reads the text of a model file into a tree of fields and values, without knowing yet what they mean. The text is
// protobuf's text format plus `$arguments`, and arithmetic wherever a number can stand.
#pragma once

#include <absl/strings/string_view.h>

#include <string>
#include <vector>

#include "proto/loader/error_list.h"
#include "proto/source_map.h"

namespace snug::core {
struct LoadOptions;
}

namespace snug::core::loader {

struct Field;

struct Value {
  enum class Kind : uint8_t {
    kInteger,     // text, as written
    kFloat,       // text, as written
    kString,      // text, as written with its quotes; further adjacent pieces are in `items`
    kIdentifier,  // text
    kArgument,    // $text
    kNegate,      // - items[0]
    kBinary,      // items[0] op items[1]
    kMessage,     // fields
    kList,        // items
    kBroken,      // it was not understood, and that is reported
  };
  Kind kind = Kind::kBroken;
  char op = 0;
  bool complete = true;  // for kMessage: whether every field could be read
  SourcePos pos;
  std::string text;
  std::vector<Value> items;
  std::vector<Field> fields;

  // Returns `an integer`, `a message` and so on, for messages to the user.
  const char* Describe() const;
};

struct Field {
  std::string name;  // for an extension, the name in its brackets
  bool extension = false;
  SourcePos pos;
  Value value;
};

// Reads the whole file as a message. After an error it goes on at the next field that it can make out.
Value ParseSyntax(absl::string_view text, const LoadOptions& options, ErrorList* errors);

}  // namespace snug::core::loader
