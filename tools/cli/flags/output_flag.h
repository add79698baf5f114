// What is asked of a flag that names a file to write.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

namespace google::protobuf {
class Message;
}

namespace snug::core::cli {

// Fails if what is written would take the place of one of the files that are read. Those need not exist.
absl::Status CheckNotRead(absl::string_view flag, const std::string& output, const std::vector<std::string>& read);

// All strings in a message, as the files that its options name are.
std::vector<std::string> StringsIn(const google::protobuf::Message& message);

}  // namespace snug::core::cli
