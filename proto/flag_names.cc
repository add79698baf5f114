#include "proto/flag_names.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>
#include <google/protobuf/descriptor.h>

#include <vector>

#include "engine/base/status.h"
#include "proto/field_options.pb.h"
#include "proto/network.pb.h"

namespace snug::core {

using google::protobuf::FieldDescriptor;

std::string FlagName(const FieldDescriptor& field, absl::string_view prefix) {
  if (field.options().HasExtension(proto::flag)) return field.options().GetExtension(proto::flag);
  return absl::StrCat(prefix, absl::StrReplaceAll(field.name(), {{"_", "-"}}));
}

std::string FlagPrefix(const FieldDescriptor& field, absl::string_view prefix) {
  const std::string name = FlagName(field, prefix);
  return name.empty() ? "" : absl::StrCat(name, "-");
}

std::string FlagOfOption(absl::string_view option) {
  const std::vector<std::string> path = absl::StrSplit(option, '.');
  std::string prefix;  // flags leave out the first part, `training` or `optimizer`
  const google::protobuf::Descriptor* type = proto::Network::descriptor();
  for (size_t i = 0; i < path.size(); ++i) {
    const FieldDescriptor* const field = type->FindFieldByName(path[i]);
    SNUG_CHECK(field != nullptr);
    if (i + 1 == path.size()) return FlagName(*field, prefix);
    if (i > 0) prefix = FlagPrefix(*field, prefix);
    type = field->message_type();
    SNUG_CHECK(type != nullptr);
  }
  return "";
}

}  // namespace snug::core
