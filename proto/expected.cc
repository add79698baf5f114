#include "proto/expected.h"

#include <absl/strings/str_cat.h>

namespace snug::core {

std::string Expected(const google::protobuf::FieldDescriptor* field) {
  using google::protobuf::FieldDescriptor;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return "a number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_STRING:
      return "a string";
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::string names;
      for (int i = 0; i < field->enum_type()->value_count(); ++i) {
        absl::StrAppend(&names, i == 0 ? "one of " : ", ", std::string(field->enum_type()->value(i)->name()));
      }
      return names;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "a message { }";
    default:
      return "an integer";
  }
}

}  // namespace snug::core
