// Flags for the fields of a message, so that a file and the command line name the same options: field `evaluate_every`
// is --evaluate-every, `every` within `checkpoint` is --checkpoint-every. Of a oneof the member's name is the value of
// a flag named like the message that holds it: --schedule=cosine, and that member's own fields are
// --schedule-cosine-final. The help is the field's own, and where a flag is named otherwise, that too
// (proto/field_options.proto).
#pragma once

#include <google/protobuf/message.h>

#include <set>
#include <string>

#include "tools/cli/flags.h"

namespace snug::cli {

// `message` must outlive the flags; only what is given on the command line is set in it. `prefix` is "" or ends with a
// hyphen; `oneof_flag` is the name of the flag that chooses among the members of the message's oneof. Names that are
// flags already are left alone, and those in `without` left out.
void AddProtoFlags(const std::string& prefix, const std::string& oneof_flag, google::protobuf::Message* message,
                   Flags& flags, const std::set<std::string>& without = {});

// What `given` has takes the place of what `base` has; lists as a whole.
void Override(const google::protobuf::Message& given, google::protobuf::Message* base);

}  // namespace snug::cli
