// Artefacts in files, plans and tunings: protobuf messages, as text where the file's name ends with .pbtxt or .txt, and
// binary everywhere else.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <string>

namespace google::protobuf {
class Message;
}

namespace snug {

// `what` is expected in the file, as "a plan"; `maker` is the command that writes them.
absl::Status ReadMessageFile(const std::string& path, absl::string_view what, absl::string_view maker,
                             google::protobuf::Message* message);
absl::Status WriteMessageFile(const std::string& path, const google::protobuf::Message& message);

}  // namespace snug
