#include "tools/cli/flags/output_flag.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <filesystem>
#include <system_error>

namespace snug::core::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void AddStrings(const Message& message, std::vector<std::string>* strings) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  for (const FieldDescriptor* const field : set) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        strings->push_back(field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                                : reflection.GetString(message, field));
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        AddStrings(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                        : reflection.GetMessage(message, field),
                   strings);
      }
    }
  }
}

}  // namespace

absl::Status CheckNotRead(absl::string_view flag, const std::string& output, const std::vector<std::string>& read) {
  for (const std::string& file : read) {
    std::error_code missing;
    if (!std::filesystem::equivalent(output, file, missing) || missing) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, ": expected another file than those that are read, found ", output));
  }
  return absl::OkStatus();
}

std::vector<std::string> StringsIn(const Message& message) {
  std::vector<std::string> strings;
  AddStrings(message, &strings);
  return strings;
}

}  // namespace snug::core::cli
