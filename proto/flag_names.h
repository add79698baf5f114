// What the flags of options are called: by the option's path with hyphens, `checkpoint.keep` is --checkpoint-keep,
// unless (flag) says otherwise (proto/field_options.proto).
#pragma once

#include <absl/strings/string_view.h>

#include <string>

namespace google::protobuf {
class FieldDescriptor;
}

namespace snug {

// Of a field of a message whose fields' flags begin with `prefix`, which is empty or ends with a hyphen.
std::string FlagName(const google::protobuf::FieldDescriptor& field, absl::string_view prefix);
// What the flags of the fields of this field's message begin with.
std::string FlagPrefix(const google::protobuf::FieldDescriptor& field, absl::string_view prefix);

// Of "training.checkpoint.keep", "optimizer.sgd.momentum": "checkpoint-keep", "sgd-momentum".
std::string FlagOfOption(absl::string_view option);

}  // namespace snug
