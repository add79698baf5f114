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

// The files that options of data name, among them those of NumPy, as image=x.npy.
std::vector<std::string> FilesIn(const google::protobuf::Message& data);

}  // namespace snug::core::cli
