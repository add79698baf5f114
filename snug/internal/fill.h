// Puts options that a program gives into the messages of the model file.
#pragma once

#include <absl/status/status.h>

#include <string>

#include "snug/option.h"

namespace google::protobuf {
class Message;
}
namespace snug {
class Custom;
}

namespace snug {
inline namespace v0 {
namespace embed {

// `name` may be a path through messages: "init.kind". Lists are replaced. Errors begin with `option "<name>": `.
absl::Status SetOption(const Option& option, google::protobuf::Message* message);

// Sets an option of an op that only the program knows: numbers and texts.
void SetCustomOption(const Option& option, Custom* custom);

}  // namespace embed
}  // namespace v0
}  // namespace snug
