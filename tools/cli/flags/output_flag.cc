#include "tools/cli/flags/output_flag.h"

#include <absl/algorithm/container.h>
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

// The fields that name files. Other texts are names of columns and the like.
constexpr absl::string_view kFileFields[] = {"images", "labels",    "test_images", "test_labels", "file",
                                             "list",   "test_list", "test_file",   "tokenizer",   "cache"};

void AddFile(const std::string& text, std::vector<std::string>* files) {
  files->push_back(text);
  const size_t equals = text.find('=');
  if (equals != std::string::npos) files->push_back(text.substr(equals + 1));
}

void AddFiles(const Message& message, std::vector<std::string>* files) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  for (const FieldDescriptor* const field : set) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        AddFiles(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                      : reflection.GetMessage(message, field),
                 files);
      } else if (absl::c_linear_search(kFileFields, field->name())) {
        AddFile(field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                     : reflection.GetString(message, field),
                files);
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

std::vector<std::string> FilesIn(const Message& data) {
  std::vector<std::string> files;
  AddFiles(data, &files);
  return files;
}

}  // namespace snug::core::cli
