// Gives the options' flags their names. A flag is the option's path with hyphens, so `checkpoint.keep` is
// --checkpoint-keep, unless (flag) says otherwise (proto/field_options.proto).
#pragma once

#include <absl/strings/string_view.h>

#include <string>

namespace google::protobuf {
class FieldDescriptor;
}

namespace snug::core {

// Returns the flag of a field. `prefix` begins the names of all flags of its message; it is empty or ends with a
// hyphen.
std::string FlagName(const google::protobuf::FieldDescriptor& field, absl::string_view prefix);
// Returns the prefix for the flags of the fields inside this field's message.
std::string FlagPrefix(const google::protobuf::FieldDescriptor& field, absl::string_view prefix);

// Returns "checkpoint-keep" for "training.checkpoint.keep", and "sgd-momentum" for "optimizer.sgd.momentum".
std::string FlagOfOption(absl::string_view option);

}  // namespace snug::core
