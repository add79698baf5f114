// Reads and writes artefacts, that is, plans and tunings, as files. They are protobuf messages, as text where the
// file's name ends with .pbtxt or .txt, and binary otherwise.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <string>

namespace google::protobuf {
class Message;
}

namespace snug::core {

// `what` names what the file should have, such as "a plan"; `maker` is the command that writes such files.
absl::Status ReadMessageFile(const std::string& path, absl::string_view what, absl::string_view maker,
                             google::protobuf::Message* message);
absl::Status WriteMessageFile(const std::string& path, const google::protobuf::Message& message);

}  // namespace snug::core
