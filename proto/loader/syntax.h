// The text of a model file as a tree: fields with values, nothing known yet of what they mean. This is protobuf's text
// format plus `$arguments` and arithmetic where a number can stand.
#pragma once

#include <absl/strings/string_view.h>

#include <string>
#include <vector>

#include "proto/loader/error_list.h"
#include "proto/source_map.h"

namespace snug {
struct LoadOptions;
}

namespace snug::loader {

struct Field;

struct Value {
  enum class Kind : uint8_t {
    kInteger,     // text: as written
    kFloat,       // text: as written
    kString,      // text: as written, in its quotes; further adjacent pieces are in `items`
    kIdentifier,  // text
    kArgument,    // $text
    kNegate,      // - items[0]
    kBinary,      // items[0] op items[1]
    kMessage,     // fields
    kList,        // items
    kBroken,      // not understood, and reported
  };
  Kind kind = Kind::kBroken;
  char op = 0;
  bool complete = true;  // kMessage: every field could be read
  SourcePos pos;
  std::string text;
  std::vector<Value> items;
  std::vector<Field> fields;

  // `an integer`, `a message`, ...: for messages to the user.
  const char* Describe() const;
};

struct Field {
  std::string name;  // of an extension: what stands in its brackets
  bool extension = false;
  SourcePos pos;
  Value value;
};

// The whole file, as a message. Goes on after an error at the next field it can make out.
Value ParseSyntax(absl::string_view text, const LoadOptions& options, ErrorList* errors);

}  // namespace snug::loader
