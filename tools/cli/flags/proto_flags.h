// Adds flags for the fields of a message, so that a file and the command line name the same options: field
// `evaluate_every` is --evaluate-every, and `every` within `checkpoint` is --checkpoint-every. For a oneof, a flag
// named like the message that holds it chooses the member: --schedule=cosine; that member's own fields are flags such
// as --schedule-cosine-final. The field itself gives the help and, where it differs, the flag's name
// (proto/field_options.proto).
#pragma once

#include <absl/status/status.h>
#include <google/protobuf/message.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli/flags/flags.h"

namespace snug::core::cli {

// Members of oneofs that flags chose without naming them: --lion-beta1=0.5 chooses lion as --optimizer=lion would.
class ImpliedChoices {
 public:
  // It is an error if `base`, which files have, has another member: whoever gives a flag that does nothing there did
  // not ask for another optimizer.
  absl::Status CheckAgainst(const google::protobuf::Message& base) const;

 private:
  friend class ProtoFlagAdder;
  struct Choice {
    std::string flag;                                          // that chose it
    std::vector<const google::protobuf::FieldDescriptor*> to;  // from the message to the member
  };
  std::map<std::string, Choice> choices_;  // by the flag that would name the member
  std::set<std::string> named_;            // such flags that were given: what they name, flags did not imply
};

// `message` must outlive the flags; only what the command line gives is set in it. `prefix` is "" or ends with a
// hyphen. `oneof_flag` is the name of the flag that chooses among the members of the message's oneof. Names that are
// flags already are skipped, and so are those in `without`; where that names a message, as "schedule", all of it.
// What is returned knows what flags have chosen once they are parsed.
std::shared_ptr<const ImpliedChoices> AddProtoFlags(const std::string& prefix, const std::string& oneof_flag,
                                                    google::protobuf::Message* message, Flags& flags,
                                                    const std::set<std::string>& without = {});

// Replaces fields of `base` by those that `given` has. A list is replaced as a whole.
void Override(const google::protobuf::Message& given, google::protobuf::Message* base);

// Returns what AddProtoFlags' flags would have to say for a message to become this one: names, without the dashes, and
// values. What is at its default is left out.
std::vector<std::pair<std::string, std::string>> ListProtoFlags(const std::string& prefix,
                                                                const std::string& oneof_flag,
                                                                const google::protobuf::Message& message);

}  // namespace snug::core::cli
